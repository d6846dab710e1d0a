"""The database loses its last commits: nobody is charged twice, and nobody had to know."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from local.stripe_simulator import CustomerSeed, Fault, FaultKind, Match
from shared.errors import StripeUnavailable
from shared.outcome import Outcome
from shared.ports import Adoption, NoResponse, Payments, StripeRequest, StripeResponse
from shared.rebuild import RebuildState, keep_whole, preview, rebuild
from shared.record import Flow, RecordId, State
from shared.timers import reconcile_once
from shared.upkeep import Upkeep, build_upkeep
from tests.support.bench import (
    MONEY_PATHS,
    PERIOD,
    RULES,
    Bench,
    ImpatientClock,
    Killed,
    TappedPayments,
    kill_after,
    kill_before,
)
from tests.support.losing import LosableDatabase

AMOUNT_CENTS = 5000


@pytest.fixture
def database(scenario_database_url: str) -> LosableDatabase:
    """The bench's database."""
    return LosableDatabase(scenario_database_url)


@pytest.fixture(autouse=True)
def present(bench: Bench) -> Iterator[None]:
    """Stripe's clock shows the time, before and after."""
    bench.stripe.set_clock(time.time())
    yield
    bench.stripe.set_clock(time.time())


def upkeep(bench: Bench, payments: Payments | None = None, **rules: Any) -> Upkeep:
    """What the reconcile timer rebuilds with."""
    clock = ImpatientClock()
    return build_upkeep(
        bench.store, payments or bench.payments, clock, replace(RULES, max_attempts=1, **rules)
    )


class EveryFiring:
    """Implements `Timers`: no firing is a double."""

    def take_timer_lease(self, name: str, lease_seconds: float) -> bool:
        """See `Timers`."""
        return True


def fire_timer(bench: Bench) -> None:
    """Let the reconcile timer fire once, everything else being due."""
    bench.lapse_leases()
    reconcile_once(EveryFiring(), bench.biller(), upkeep(bench))


def rebuilt(bench: Bench, database: LosableDatabase) -> None:
    """Notice the loss, wait, and rebuild."""
    assert not keep_whole(upkeep(bench))
    database.let_requests_end()
    assert keep_whole(upkeep(bench))


def customers(bench: Bench, *names: str) -> None:
    """Make Stripe customers who pay with a good card."""
    for name in names:
        bench.customer(f"cus_{name}")


def deliver(bench: Bench, name: str, **options: Any) -> Outcome:
    """Deliver a customer's event."""
    return bench.deliver(customer_id=name, stripe_customer_id=f"cus_{name}", **options)


def die(bench: Bench, name: str, flow: Flow, **taps: Any) -> None:
    """Deliver a customer's event to a process that dies over it."""
    biller = bench.biller(TappedPayments(bench.payments, **taps), flow=flow)
    bench.deliver_and_die(biller, customer_id=name, stripe_customer_id=f"cus_{name}")


def state_of(bench: Bench, name: str) -> State:
    """What the customer's record says."""
    return bench.record(name).state


def paid(bench: Bench) -> list[str]:
    """Who was charged, once for each time."""
    return sorted(str(entry.customer).removeprefix("cus_") for entry in bench.charges())


@pytest.mark.parametrize("hours", [1, 25])
def test_lost_commits_charge_nobody_twice(
    bench: Bench, database: LosableDatabase, flow: Flow, hours: int
) -> None:
    """Goal: ten minutes of commits are gone; every message comes again, hours later.

    Among what was lost: whole records of charges, the ending of a record, the claim of a process
    that died after its charge, a decline, and the claim of one that died before it charged.
    """
    names = ["kept", "lost", "ending", "died", "declined", "early"]
    customers(bench, *names[:4], names[5])
    bench.customer(
        "cus_declined", source="tok_chargeDeclined", payment_method="pm_card_chargeDeclined"
    )
    biller = bench.biller(flow=flow)
    deliver(bench, "kept", biller=biller)
    die(bench, "ending", flow, before=kill_before(MONEY_PATHS[flow]))
    database.back_up()

    bench.lapse_leases()
    for name in ("ending", "lost"):
        assert deliver(bench, name, biller=biller) is Outcome.CHARGED
    assert deliver(bench, "declined", biller=biller) is Outcome.DECLINED
    die(bench, "died", flow, after=kill_after(MONEY_PATHS[flow]))
    die(bench, "early", flow, before=kill_before(MONEY_PATHS[flow]))
    database.lose_commits()

    assert deliver(bench, "lost", biller=biller) is Outcome.TRANSIENT
    fire_timer(bench)
    assert deliver(bench, "lost", biller=biller) is Outcome.TRANSIENT
    database.let_requests_end()
    fire_timer(bench)
    bench.let_hours_pass(hours)
    for name in names:
        deliver(bench, name, biller=biller, delivery_count=2)
    fire_timer(bench)
    assert paid(bench) == ["died", "early", "ending", "kept", "lost"]
    for name in paid(bench):
        assert state_of(bench, name) is State.CHARGED
    bench.assert_run(held=0, charged=5 * AMOUNT_CENTS)


def test_without_the_rebuild_the_same_would_charge_twice(
    bench: Bench, database: LosableDatabase
) -> None:
    """Goal: the loss that these tests make is one; a day later Stripe's keys are gone."""
    customers(bench, "lost")
    database.back_up()
    deliver(bench, "lost")
    database.lose_commits(keep_timeline=True)
    bench.let_hours_pass(25)
    deliver(bench, "lost")
    assert paid(bench) == ["lost", "lost"]


def test_nothing_is_read_while_requests_may_be_running(
    bench: Bench, database: LosableDatabase
) -> None:
    """Goal: a charge that succeeds after its list was read is not missed.

    Method: in the one-step flow the request of a lost holder reaches Stripe only after the loss
    was noticed.
    """
    customers(bench, "late")
    database.back_up()
    held: list[StripeRequest] = []

    def hold_back(request: StripeRequest) -> NoResponse | None:
        if request.method == "post":
            held.append(request)
            return NoResponse(sent=True, problem="read_timeout")
        return None

    slow = bench.biller(TappedPayments(bench.payments, before=hold_back), flow=Flow.CHARGE)
    deliver(bench, "late", biller=slow)
    database.lose_commits()
    report = rebuild(upkeep(bench))
    assert report.state is RebuildState.WAITING
    assert 0 < report.wait_seconds <= 2 * RULES.lease_seconds
    bench.payments.send(held[0], 20)
    database.let_requests_end()
    assert rebuild(upkeep(bench)).adoptions == {Adoption.RESTORED: 1}
    bench.let_hours_pass(25)
    assert deliver(bench, "late") is Outcome.CHARGED
    assert paid(bench) == ["late"]


def test_a_lost_payment_intent_is_the_one_that_is_confirmed(
    bench: Bench, database: LosableDatabase
) -> None:
    """Goal: a confirm that was held up for days and the message's own meet at one PaymentIntent."""
    customers(bench, "early")
    database.back_up()
    held: list[StripeRequest] = []

    def hold_back(request: StripeRequest) -> None:
        if request.path.endswith("/confirm"):
            held.append(request)
            raise Killed

    die(bench, "early", Flow.PAYMENT_INTENT, before=hold_back)
    database.lose_commits()
    rebuilt(bench, database)
    record = bench.record("early")
    assert (record.state, record.payment_id) == (State.IN_DOUBT, held[0].path.split("/")[3])
    bench.assert_run(held=AMOUNT_CENTS, charged=0)
    bench.let_hours_pass(25)
    assert deliver(bench, "early") is Outcome.CHARGED
    bench.payments.send(held[0], 20)
    assert paid(bench) == ["early"]


def test_money_on_its_way_is_followed(bench: Bench, database: LosableDatabase) -> None:
    """Goal: a bank debit that succeeds after the rebuild is the customer's one charge."""
    bench.customer("cus_bank", source=None, payment_method="pm_usBankAccount_success")
    database.back_up()
    assert deliver(bench, "bank") is Outcome.PROCESSING
    database.lose_commits()
    rebuilt(bench, database)
    assert state_of(bench, "bank") is State.PROCESSING
    assert deliver(bench, "bank") is Outcome.PROCESSING
    bench.stripe.settle()
    bench.reconcile()
    assert state_of(bench, "bank") is State.CHARGED
    assert paid(bench) == ["bank"]


def test_a_later_attempt_that_was_lost_is_not_paid_again(
    bench: Bench, database: LosableDatabase
) -> None:
    """Goal: a record that says declined learns that the next attempt was charged."""
    bench.customer(
        "cus_again", source="tok_chargeDeclined", payment_method="pm_card_chargeDeclined"
    )
    assert deliver(bench, "again") is Outcome.DECLINED
    database.back_up()
    charged = deliver(bench, "again", attempt=2, payment_method_id="pm_card_visa")
    assert charged is Outcome.CHARGED
    database.lose_commits()
    rebuilt(bench, database)
    record = bench.record("again")
    assert (record.state, record.attempt) == (State.CHARGED, 2)
    bench.let_hours_pass(25)
    deliver(bench, "again", attempt=2, payment_method_id="pm_card_visa")
    assert paid(bench) == ["again"]


def test_a_lost_run_counts_what_was_charged(bench: Bench, database: LosableDatabase) -> None:
    customers(bench, "one", "two")
    bench.execute("DELETE FROM chargeonce.runs")
    database.back_up()
    bench.store.open_run(PERIOD, "usd", 2 * AMOUNT_CENTS, 2 * AMOUNT_CENTS)
    deliver(bench, "one")
    database.lose_commits()
    rebuilt(bench, database)
    assert deliver(bench, "two") is Outcome.RUN_MISSING
    bench.store.open_run(PERIOD, "usd", 2 * AMOUNT_CENTS, 2 * AMOUNT_CENTS)
    bench.assert_run(held=0, charged=AMOUNT_CENTS)


def test_an_operator_tells_of_a_loss_that_the_server_cannot_see(
    bench: Bench, database: LosableDatabase, flow: Flow
) -> None:
    """Goal: told, the consumers stop at once, and the lists are read as far back as was told."""
    customers(bench, "lost", "other")
    database.back_up()
    deliver(bench, "lost", biller=bench.biller(flow=flow))
    before = bench.record("lost").updated_at
    bench.let_hours_pass(5)
    deliver(bench, "other", biller=bench.biller(flow=flow))
    database.lose_commits(keep_timeline=True)
    assert rebuild(upkeep(bench), told_since=before).state is RebuildState.WAITING
    assert deliver(bench, "lost") is Outcome.TRANSIENT
    database.let_requests_end()
    assert keep_whole(upkeep(bench))
    bench.let_hours_pass(25)
    deliver(bench, "lost", biller=bench.biller(flow=flow))
    assert paid(bench) == ["lost", "other"]


def test_a_charge_shortly_before_the_last_known_commit_is_found(
    bench: Bench, database: LosableDatabase
) -> None:
    """Goal: clocks differ; Stripe's may lie behind the database's."""
    customers(bench, "lost")
    bench.stripe.set_clock(bench.stripe.now() - 3000)
    database.back_up()
    deliver(bench, "lost")
    database.lose_commits()
    rebuilt(bench, database)
    assert state_of(bench, "lost") is State.CHARGED


@pytest.mark.parametrize("replay_hours", [3, 23.9])
@pytest.mark.parametrize("is_after_a_day", [False, True])
def test_a_payment_that_a_repeated_create_brought_back_is_found(
    bench: Bench, database: LosableDatabase, replay_hours: float, is_after_a_day: bool
) -> None:
    """Goal: a payment may be far older than the commits that were lost, and is found all the same.

    Its create was sent hours before, and its answer was lost. The same create, sent again within
    the lost time, brought the same PaymentIntent back, which then was charged.
    """
    customers(bench, "brought_back", "busy")
    bench.stripe.set_clock(time.time() - replay_hours * 3600)
    killed = kill_after("/v1/payment_intents")
    die(bench, "brought_back", Flow.PAYMENT_INTENT, after=killed)
    let_database_hours_pass(bench, replay_hours)
    bench.stripe.set_clock(time.time())
    deliver(bench, "busy")
    database.back_up()
    bench.lapse_leases()
    assert deliver(bench, "brought_back") is Outcome.CHARGED
    database.lose_commits()
    if is_after_a_day:
        bench.let_hours_pass(25)
    rebuilt(bench, database)
    fire_timer(bench)
    deliver(bench, "brought_back", delivery_count=2)
    assert paid(bench) == ["brought_back", "busy"]
    assert state_of(bench, "brought_back") is State.CHARGED


def let_database_hours_pass(bench: Bench, hours: float) -> None:
    """Make everything that the database knows older."""
    ago = f"- interval '{hours} hours'"
    bench.execute(
        f"UPDATE chargeonce.records SET attempt_started_at = attempt_started_at {ago}, "
        f"created_at = created_at {ago}, claimed_at = claimed_at {ago}"
    )
    bench.execute(f"UPDATE chargeonce.attempts SET noted_at = noted_at {ago}")


class Interrupted:
    """Stripe's lists, for a rebuild that reads few objects a page and may be stopped."""

    def __init__(self, bench: Bench, database: LosableDatabase) -> None:
        self.bench = bench
        self.database = database
        self.pages: list[StripeRequest] = []

    def small_pages(self, request: StripeRequest) -> StripeResponse | NoResponse | None:
        """Answer lists two objects at a time."""
        if "limit" not in request.parameters or request.parameters["limit"] == "2":
            return None
        self.pages.append(request)
        small = replace(request, parameters={**request.parameters, "limit": "2"})
        return self.bench.payments.send(small, 20)

    def upkeep(self, before: Callable[[StripeRequest], Any] | None = None) -> Upkeep:
        """What the timer rebuilds with; `before` sees each request first."""

        def tapped(request: StripeRequest) -> StripeResponse | NoResponse | None:
            if before is not None:
                before(request)
            return self.small_pages(request)

        return upkeep(self.bench, TappedPayments(self.bench.payments, before=tapped))

    def lists_read(self) -> list[tuple[str, bool]]:
        """Which lists were asked for, and whether from their beginning."""
        return [(page.path, "starting_after" not in page.parameters) for page in self.pages]


NAMES = [f"customer-{number}" for number in range(5)]


@pytest.fixture
def interrupted(bench: Bench, database: LosableDatabase) -> Interrupted:
    """Five charges were lost; the loss was noticed long ago."""
    customers(bench, *NAMES)
    upkeep(bench).check_identity()
    database.back_up()
    for name in NAMES:
        deliver(bench, name)
    database.lose_commits()
    assert not keep_whole(upkeep(bench))
    database.let_requests_end()
    return Interrupted(bench, database)


def charged_records(bench: Bench) -> int:
    """How many of the five records say charged."""
    records = [bench.store.get_record(RecordId(name, PERIOD)) for name in NAMES]
    return sum(record is not None and record.state is State.CHARGED for record in records)


def test_a_rebuild_that_is_stopped_goes_on_where_it_was(interrupted: Interrupted) -> None:
    """Goal: a function that is cut off again and again gets to the end all the same."""
    bench = interrupted.bench
    rounds = 0
    while rebuild(interrupted.upkeep(), is_time_up=lambda: True).state is not RebuildState.WHOLE:
        assert deliver(bench, NAMES[0]) is Outcome.TRANSIENT
        rounds += 1
        assert rounds < 10
    assert charged_records(bench) == len(NAMES)
    firsts = [path for path, is_first in interrupted.lists_read() if is_first]
    assert sorted(set(firsts)) == ["/v1/charges", "/v1/payment_intents"]
    assert len(interrupted.pages) <= 6 + 1


@pytest.mark.parametrize("page", [1, 2, 3, 4, 5])
def test_a_rebuild_that_dies_is_taken_up_again(interrupted: Interrupted, page: int) -> None:
    """Goal: wherever it dies, nothing counts as read that was not, and nobody charges meanwhile."""
    bench = interrupted.bench

    def die_at_page(request: StripeRequest) -> None:
        if "limit" in request.parameters and len(interrupted.pages) == page:
            raise Killed

    with pytest.raises(Killed):
        rebuild(interrupted.upkeep(die_at_page))
    assert deliver(bench, NAMES[0]) is Outcome.TRANSIENT
    interrupted.pages.clear()
    assert keep_whole(interrupted.upkeep())
    assert charged_records(bench) == len(NAMES)
    bench.let_hours_pass(25)
    for name in NAMES:
        deliver(bench, name)
    assert paid(bench) == sorted(NAMES)


def test_another_failover_in_the_middle_is_not_swallowed(interrupted: Interrupted) -> None:
    """Goal: what the first reading adopted is lost again; the lists are read again, later."""
    bench, database = interrupted.bench, interrupted.database

    def fail_over(request: StripeRequest) -> None:
        if "limit" in request.parameters and len(interrupted.pages) == 2:
            database.lose_commits()

    assert rebuild(interrupted.upkeep(fail_over)).state is RebuildState.UNFINISHED
    assert deliver(bench, NAMES[0]) is Outcome.TRANSIENT
    rebuilt(bench, database)
    assert charged_records(bench) == len(NAMES)


def test_two_that_rebuild_at_once_do_no_harm(interrupted: Interrupted) -> None:
    """Goal: both clouds' timers read the lists, and the books are right."""
    bench = interrupted.bench

    def race(request: StripeRequest) -> None:
        if "limit" in request.parameters and len(interrupted.pages) == 1:
            assert keep_whole(upkeep(bench))

    rebuild(interrupted.upkeep(race))
    assert keep_whole(upkeep(bench))
    assert charged_records(bench) == len(NAMES)
    bench.assert_run(held=0, charged=len(NAMES) * AMOUNT_CENTS)


@pytest.mark.parametrize("path", ["/v1/payment_intents", "/v1/charges"])
def test_a_list_that_cannot_be_read_keeps_the_database_suspended(
    interrupted: Interrupted, path: str
) -> None:
    bench = interrupted.bench
    bench.stripe.add_fault(
        Fault(FaultKind.SERVER_ERROR, Match(method="GET", path=path, count=1000), acts=False)
    )
    with pytest.raises(StripeUnavailable, match=path):
        rebuild(upkeep(bench))
    assert not keep_whole(upkeep(bench))
    assert deliver(bench, NAMES[0]) is Outcome.TRANSIENT


def test_another_accounts_lists_prove_nothing(interrupted: Interrupted) -> None:
    """Goal: a key that was swapped in the confusion reads an empty list; nothing comes of it."""
    bench = interrupted.bench
    bench.stripe.register_key("rk_test_other", account="acct_other")
    with pytest.raises(StripeUnavailable, match="wrong_account"):
        rebuild(upkeep(bench, bench.new_payments("rk_test_other")))
    assert not keep_whole(upkeep(bench, bench.new_payments("rk_test_other")))
    assert deliver(bench, NAMES[0]) is Outcome.TRANSIENT


def test_a_payment_of_no_known_record_keeps_the_database_suspended(
    interrupted: Interrupted,
) -> None:
    """Goal: what nobody can place may be a lost record's payment, so nothing is charged."""
    bench = interrupted.bench
    report = rebuild(upkeep(bench, key_namespace="other"))
    assert report.state is RebuildState.BLOCKED
    assert len(report.unreadable) > 0
    assert charged_records(bench) == 0
    assert deliver(bench, NAMES[0]) is Outcome.TRANSIENT
    assert rebuild(upkeep(bench, key_namespace="other")).state is RebuildState.BLOCKED


def test_the_payments_of_another_deployment_are_none_of_ours(interrupted: Interrupted) -> None:
    """Goal: two deployments in one Stripe account leave each other's payments alone."""
    bench = interrupted.bench
    ours = upkeep(bench, key_namespace="other", other_namespaces=(RULES.key_namespace,))
    report = rebuild(ours)
    assert (report.state, report.unreadable) == (RebuildState.WHOLE, [])
    assert report.adoptions == {}
    assert charged_records(bench) == 0


def test_a_namespace_that_was_changed_charges_nobody_twice(
    bench: Bench, database: LosableDatabase, flow: Flow
) -> None:
    """Goal: what was charged under the former namespace is adopted under its own key."""
    customers(bench, "moved")
    database.back_up()
    before = bench.biller(flow=flow, key_namespace="before")
    assert deliver(bench, "moved", biller=before) is Outcome.CHARGED
    database.lose_commits()
    now = upkeep(bench, former_namespaces=("before",))
    assert not keep_whole(now)
    database.let_requests_end()
    assert keep_whole(now)
    assert deliver(bench, "moved", message_id="again") is Outcome.CHARGED
    assert paid(bench) == ["moved"]


def test_an_attempt_number_that_somebody_broke_stops_no_rebuild(
    bench: Bench, database: LosableDatabase
) -> None:
    """Goal: metadata that were edited at Stripe keep neither the money nor the others away."""
    customers(bench, "edited")
    database.back_up()
    deliver(bench, "edited")
    path = f"/v1/payment_intents/{bench.record('edited').payment_id}"
    bench.payments.send(
        StripeRequest("post", path, {"metadata[attempt]": "3000000000"}, "edit"), 20
    )
    database.lose_commits()
    rebuilt(bench, database)
    assert (state_of(bench, "edited"), paid(bench)) == (State.CHARGED, ["edited"])


def test_a_preview_says_what_a_rebuild_would_do(interrupted: Interrupted) -> None:
    bench = interrupted.bench
    since = datetime.fromtimestamp(bench.stripe.now()).astimezone() - timedelta(hours=2)
    seen: list[float] = []
    report = preview(interrupted.upkeep(), since, seen.append)
    assert report.adoptions == {Adoption.RESTORED: len(NAMES)}
    assert charged_records(bench) == 0
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert deliver(bench, NAMES[0]) is Outcome.TRANSIENT


def test_a_whole_database_is_left_alone(bench: Bench) -> None:
    """Goal: the timer of a healthy deployment asks Stripe for no list."""
    payments = TappedPayments(bench.payments)
    assert keep_whole(upkeep(bench, payments))
    assert payments.sent == []


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_thousands_of_lost_charges_are_found_page_by_page(
    bench: Bench, database: LosableDatabase
) -> None:
    """Goal: a long list, in real pages."""
    count = 1500
    names = [f"many-{number}" for number in range(count)]
    bench.stripe.seed_customers(
        CustomerSeed(ids=[f"cus_{name}" for name in names], source="tok_visa")
    )
    bench.store.raise_cap(PERIOD, 2 * count * AMOUNT_CENTS)
    database.back_up()
    biller = bench.biller()
    for name in names:
        deliver(bench, name, biller=biller)
    database.lose_commits()
    rebuilt(bench, database)
    for name in names:
        assert deliver(bench, name, biller=biller) is Outcome.CHARGED
    assert len(bench.charges()) == count
