"""Many at one time: one winner each, a cap that is never passed, and no deadlock.

Where a race can be staged it is: a transaction of the test's own holds a lock, the calls under
test queue up behind it, and then it lets them go.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shared.ports import ClaimResult, ClaimVerdict, Ending, Note, Release
from shared.record import Record, RecordId, State
from shared.store.postgres import PostgresStore
from tests.support.pgbouncer import HOW_TO_GET, find_pgbouncer, pgbouncer
from tests.support.store import (
    AMOUNT_CENTS,
    CUSTOMER,
    LEASE_SECONDS,
    PERIOD,
    PostgresUnderTest,
    claim_request,
    envelope,
)
from tests.support.waiting import wait_until

THREADS = 50
CLAIMS_PER_THREAD = [40, pytest.param(200, marks=[pytest.mark.prove, pytest.mark.timeout(300)])]
KEYS = 200
ANSWER_SECONDS = 30
NOTE = Note(envelope(), "decided")


@pytest.fixture(params=["direct", "pgbouncer"])
def crowded_url(request: pytest.FixtureRequest, postgres: PostgresUnderTest) -> Iterator[str]:
    """The database's address, and the one through PgBouncer in transaction mode."""
    if request.param == "direct":
        yield postgres.database_url
        return
    program = find_pgbouncer()
    if program is None:
        pytest.skip(HOW_TO_GET)
    with pgbouncer(program, postgres.database_url) as url:
        yield url


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for the calls under test."""
    with ThreadPoolExecutor(THREADS + 1) as executor:
        yield executor


@contextmanager
def holding(postgres: PostgresUnderTest, statement: str) -> Iterator[psycopg.Connection]:
    """A transaction that has run a statement and keeps its locks until the block ends."""
    with psycopg.connect(postgres.database_url) as connection:
        connection.execute(statement.encode())
        yield connection


def wait_until_blocked(postgres: PostgresUnderTest, count: int) -> None:
    """Wait until so many calls wait for a lock."""
    query = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    wait_until(lambda: postgres.execute(query)[0][0] == count, f"{count} calls are blocked")


def customers() -> list[str]:
    return [f"customer-{number}" for number in range(KEYS)]


def in_crowd(
    pool: ThreadPoolExecutor, work: Callable[[random.Random], list[ClaimResult]]
) -> list[ClaimResult]:
    """Let all threads begin at one moment, and gather what they got."""
    start = threading.Barrier(THREADS)

    def run(number: int) -> list[ClaimResult]:
        start.wait(ANSWER_SECONDS)
        return work(random.Random(number))

    futures = [pool.submit(run, number) for number in range(THREADS)]
    return [result for future in futures for result in future.result(60)]


@pytest.mark.parametrize("claims_per_thread", CLAIMS_PER_THREAD)
def test_one_winner_each(
    postgres: PostgresUnderTest,
    crowded_url: str,
    pool: ThreadPoolExecutor,
    claims_per_thread: int,
) -> None:
    """Goal: of many claims of each of 200 keys, by 50 threads at one time, one gets the lease."""
    postgres.open_run(cap_cents=KEYS * AMOUNT_CENTS)
    store = PostgresStore(crowded_url, THREADS)
    # Each key stands in the list so many times; each thread takes its share of the shuffled list.
    deck = customers() * (THREADS * claims_per_thread // KEYS)
    random.Random(1).shuffle(deck)
    hands = iter([deck[start::THREADS] for start in range(THREADS)])

    def claim_hand(_: random.Random) -> list[ClaimResult]:
        return [store.claim(claim_request(customer_id)) for customer_id in next(hands)]

    results = in_crowd(pool, claim_hand)
    store.close()
    verdicts = Counter(result.verdict for result in results)
    assert verdicts == {ClaimVerdict.CLAIMED: KEYS, ClaimVerdict.BUSY: len(deck) - KEYS}
    winners = Counter(
        result.record.customer_id
        for result in results
        if result.verdict is ClaimVerdict.CLAIMED and result.record
    )
    assert winners == dict.fromkeys(customers(), 1)
    assert postgres.money() == (KEYS * AMOUNT_CENTS, 0)
    assert postgres.execute("SELECT count(*) FROM chargeonce.attempts") == [(len(deck),)]


@pytest.mark.parametrize("claims_per_thread", CLAIMS_PER_THREAD)
def test_the_cap_is_passed_at_no_instant(
    postgres: PostgresUnderTest,
    crowded_url: str,
    pool: ThreadPoolExecutor,
    claims_per_thread: int,
) -> None:
    """Goal: with room for a third, while holds are taken, charged and released again.

    Method: a watcher reads the run all the while; winners end their records as charged or
    declined, and what is declined makes room for the next.
    """
    cap_cents = KEYS // 3 * AMOUNT_CENTS
    postgres.open_run(cap_cents=cap_cents)
    store = PostgresStore(crowded_url, THREADS)
    is_over = threading.Event()

    def watch() -> int:
        looks = 0
        with psycopg.connect(postgres.database_url, autocommit=True) as connection:
            while not is_over.is_set():
                row = connection.execute(
                    "SELECT held_cents + charged_cents, cap_cents FROM chargeonce.runs"
                ).fetchone()
                assert row is not None
                assert row[0] <= row[1]
                looks += 1
        return looks

    def claim_and_end(chance: random.Random) -> list[ClaimResult]:
        results = []
        for _ in range(claims_per_thread):
            result = store.claim(claim_request(chance.choice(customers())))
            if result.verdict is ClaimVerdict.CLAIMED and result.record is not None:
                state = chance.choice([State.CHARGED, State.DECLINED])
                store.finish(result.record, Ending(state, "pi_1"), NOTE, None)
            results.append(result)
        return results

    watcher = pool.submit(watch)
    try:
        results = in_crowd(pool, claim_and_end)
    finally:
        is_over.set()
    store.close()
    assert watcher.result(ANSWER_SECONDS) > 50
    verdicts = Counter(result.verdict for result in results)
    assert verdicts[ClaimVerdict.CAP_REACHED] > 0
    assert verdicts[ClaimVerdict.CLAIMED] > 0
    held_cents, charged_cents = postgres.money()
    counted = postgres.execute(
        "SELECT sum(amount_cents) FROM chargeonce.records WHERE state = 'charged'"
    )
    assert [(charged_cents,)] == counted
    assert held_cents == 0


def test_every_call_through_pgbouncer_keeps_nothing_in_the_session(
    postgres: PostgresUnderTest, crowded_url: str
) -> None:
    """Goal: each method works where every statement may meet another server connection."""
    store = PostgresStore(crowded_url, 1)
    run, opened = store.open_run(PERIOD, "usd", 10_000, 20_000)
    assert opened
    record = store.claim(claim_request()).record
    assert record is not None
    assert store.store_payment(record.lease, "pi_1") == "pi_1"
    store.release(record.lease, Release(True, False, "code", 0.0), NOTE, None)
    assert store.due(10) == [RecordId(CUSTOMER, PERIOD)]
    resumed = store.resume(record.record_id, envelope(), LEASE_SECONDS, claim_request().token)
    assert resumed.record is not None
    assert store.finish(resumed.record, Ending(State.CHARGED, "pi_1"), NOTE, None).written
    assert store.raise_cap(PERIOD, 30_000).cap_cents == 30_000
    assert store.close_run(PERIOD, "by hand").charged_cents == AMOUNT_CENTS
    assert store.status(PERIOD).run == store.get_run(PERIOD) != run
    store.close()


def test_of_two_that_would_take_over_one_does(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: both saw the lapsed lease; the second looks again when it has the lock."""
    postgres.open_run()
    postgres.claimed()
    postgres.pass_time(LEASE_SECONDS + 1)
    with holding(postgres, "SELECT FROM chargeonce.records FOR UPDATE"):
        claims = [pool.submit(postgres.claim), pool.submit(postgres.resume)]
        wait_until_blocked(postgres, 2)
    verdicts = sorted(claim.result(ANSWER_SECONDS).verdict for claim in claims)
    assert verdicts == [ClaimVerdict.BUSY, ClaimVerdict.CLAIMED]
    record = postgres.record()
    assert record is not None
    assert record.fence == 2


def test_of_two_that_would_open_an_attempt_one_does(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: two higher attempts at one time hold the amount once."""
    postgres.open_run()
    postgres.ended(State.DECLINED)
    with holding(postgres, "SELECT FROM chargeonce.records FOR UPDATE"):
        claims = [pool.submit(postgres.claim, attempt=attempt) for attempt in (2, 2)]
        wait_until_blocked(postgres, 2)
    verdicts = sorted(claim.result(ANSWER_SECONDS).verdict for claim in claims)
    assert verdicts == [ClaimVerdict.BUSY, ClaimVerdict.CLAIMED]
    assert postgres.money() == (AMOUNT_CENTS, 0)


INSERT_ELSEWHERE = f"""
INSERT INTO chargeonce.records (
    customer_id, billing_period, key, stripe_customer_id, amount_cents, currency, attempt, state,
    fence, attempt_fence, flow, create_parameters, held_cents, attempt_started_at, lease_until,
    due_at
)
VALUES (
    '{CUSTOMER}', '{PERIOD}', 'key', 'cus_1', {AMOUNT_CENTS}, 'usd', 1, 'in_progress',
    1, 1, 'charge', '{{}}', 0, now(), now() + interval '1 hour', now()
)
"""


def test_a_claim_waits_for_another_first_claim(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: a row that is being inserted is neither overlooked nor inserted twice."""
    postgres.open_run()
    with holding(postgres, INSERT_ELSEWHERE):
        claim = pool.submit(postgres.claim)
        wait_until_blocked(postgres, 1)
    assert claim.result(ANSWER_SECONDS).verdict is ClaimVerdict.BUSY
    assert postgres.money() == (0, 0)


def test_a_claim_gets_what_another_first_claim_gave_up(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: an insertion that is undone leaves the row to whoever waits."""
    postgres.open_run()
    with holding(postgres, INSERT_ELSEWHERE) as connection:
        claim = pool.submit(postgres.claim)
        wait_until_blocked(postgres, 1)
        connection.rollback()
    assert claim.result(ANSWER_SECONDS).verdict is ClaimVerdict.CLAIMED
    assert postgres.money() == (AMOUNT_CENTS, 0)


def test_the_cap_is_checked_on_the_run_as_the_claim_before_left_it(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: two that both saw room for one: the second looks again when it has the lock."""
    postgres.open_run(cap_cents=AMOUNT_CENTS)
    with holding(postgres, "SELECT FROM chargeonce.runs FOR UPDATE"):
        claims = [pool.submit(postgres.claim, name) for name in ("customer-1", "customer-2")]
        wait_until_blocked(postgres, 2)
    verdicts = sorted(claim.result(ANSWER_SECONDS).verdict for claim in claims)
    assert verdicts == [ClaimVerdict.CAP_REACHED, ClaimVerdict.CLAIMED]
    assert postgres.money() == (AMOUNT_CENTS, 0)


def test_a_run_that_closes_meanwhile_refuses_whoever_waits(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: after the operator's close has returned, nobody is claimed any more."""
    postgres.open_run()
    close = "UPDATE chargeonce.runs SET is_open = false, closed_reason = 'by hand'"
    with holding(postgres, close):
        claim = pool.submit(postgres.claim)
        wait_until_blocked(postgres, 1)
    assert claim.result(ANSWER_SECONDS).verdict is ClaimVerdict.RUN_CLOSED


def test_a_stale_ending_that_waits_for_its_successor_is_refused(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: the fence is read under the lock, not before."""
    postgres.open_run()
    record = postgres.claimed()
    take_over = """
        UPDATE chargeonce.records
        SET fence = 2, holder = gen_random_uuid(), lease_until = now() + interval '1 hour'
    """
    with holding(postgres, take_over):
        ending = pool.submit(postgres.finish, record, State.DECLINED)
        payment = pool.submit(postgres.store.store_payment, record.lease, "pi_1")
        release = pool.submit(postgres.release, record)
        wait_until_blocked(postgres, 3)
    assert not ending.result(ANSWER_SECONDS).written
    assert payment.result(ANSWER_SECONDS) is None
    release.result(ANSWER_SECONDS)
    after = postgres.record()
    assert after is not None
    assert (after.fence, after.state, after.code) == (2, State.IN_PROGRESS, None)
    assert postgres.claim().verdict is ClaimVerdict.BUSY
    assert postgres.money() == (AMOUNT_CENTS, 0)


def test_two_proofs_at_one_time_move_the_money_once(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: holder and successor both prove the charge; one of them writes it."""
    postgres.open_run()
    first = postgres.claimed()
    postgres.pass_time(LEASE_SECONDS + 1)
    second = postgres.claimed()
    with holding(postgres, "SELECT FROM chargeonce.records FOR UPDATE"):
        proofs = [pool.submit(postgres.finish, record, State.CHARGED) for record in (first, second)]
        wait_until_blocked(postgres, 2)
    assert sum(proof.result(ANSWER_SECONDS).written for proof in proofs) == 1
    assert postgres.money() == (0, AMOUNT_CENTS)


def test_two_proofs_for_a_lost_record_bring_it_back_once(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: after a failover both may find the row gone."""
    postgres.open_run()
    first = postgres.claimed()
    postgres.pass_time(LEASE_SECONDS + 1)
    second = postgres.claimed()
    postgres.lose(first.record_id)
    with holding(postgres, "LOCK TABLE chargeonce.records IN SHARE MODE"):
        proofs = [
            pool.submit(postgres.finish, record, State.CHARGED, payment_id)
            for record, payment_id in [(first, "pi_1"), (second, "pi_2")]
        ]
        wait_until_blocked(postgres, 2)
    results = [proof.result(ANSWER_SECONDS) for proof in proofs]
    assert sorted(result.written for result in results) == [False, True]
    assert sorted(result.second_payment for result in results) == [False, True]
    assert postgres.run().charged_cents == AMOUNT_CENTS


def test_opening_a_run_waits_for_whoever_has_locked_a_record(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: an ending between its lock and its write does not deadlock with the mint timer."""
    record = postgres.claimed(require_run=False)
    with holding(postgres, "SELECT FROM chargeonce.records FOR UPDATE") as connection:
        opening = pool.submit(postgres.open_run)
        wait_until_blocked(postgres, 1)
        waiting = postgres.execute(
            """
            SELECT locktype FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE NOT granted AND datname = current_database()
            """
        )
        assert waiting == [("relation",)], "it has not locked anything yet"
        ending = pool.submit(postgres.finish, record, State.CHARGED)
        wait_until_blocked(postgres, 2)
        connection.execute("UPDATE chargeonce.records SET code = 'written after all'")
    opening.result(ANSWER_SECONDS)
    assert ending.result(ANSWER_SECONDS).written
    assert postgres.money() == (0, AMOUNT_CENTS)


def test_a_claim_under_way_is_counted_by_the_run_that_is_being_opened(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: nothing slips through between the sum and the run's first claim."""
    with holding(postgres, INSERT_ELSEWHERE):
        opening = pool.submit(postgres.open_run)
        wait_until_blocked(postgres, 1)
    assert opening.result(ANSWER_SECONDS).held_cents == AMOUNT_CENTS
    record = postgres.record()
    assert record is not None
    assert record.held_cents == AMOUNT_CENTS


def test_two_timers_open_one_run(postgres: PostgresUnderTest, pool: ThreadPoolExecutor) -> None:
    """Goal: both clouds' timers fire at the same second."""
    with holding(postgres, "LOCK TABLE chargeonce.records IN SHARE MODE"):
        openings = [
            pool.submit(postgres.store.open_run, PERIOD, "usd", 10_000, 11_000) for _ in range(2)
        ]
        wait_until_blocked(postgres, 2)
    results = [opening.result(ANSWER_SECONDS) for opening in openings]
    assert sorted(opened for _, opened in results) == [False, True]
    assert results[0][0] == results[1][0]


def test_all_kinds_of_calls_on_one_run_never_deadlock(
    postgres: PostgresUnderTest, pool: ThreadPoolExecutor
) -> None:
    """Goal: whatever locks record and run locks them in one order.

    Method: everything at once on a few records, while runs are opened, raised and closed; the
    server counts its deadlocks, and no call may fail.
    """
    postgres.open_run(cap_cents=10**9)
    url = make_conninfo(postgres.database_url, application_name="crowd")
    store = PostgresStore(url, 16)
    names = [f"customer-{number}" for number in range(4)]
    held: list[Record] = []

    def act(number: int) -> None:
        chance = random.Random(number)
        for turn in range(40):
            result = store.claim(
                claim_request(chance.choice(names), attempt=turn // 2 + 1, lease_seconds=0.001)
            )
            if result.record is not None:
                held.append(result.record)
            record = chance.choice(held)
            state = chance.choice([State.DECLINED, State.PARKED, State.PROCESSING])
            store.finish(record, Ending(state, "pi_1"), NOTE, None)
            record = chance.choice(held)
            store.release(record.lease, Release(True, False, None, 0.0), NOTE, None)
            store.resume(record.record_id, envelope(), 0.001, claim_request().token)

    def operate() -> None:
        for turn in range(20):
            store.open_run(f"2027-{turn}", "usd", 1, 1)
            store.raise_cap(PERIOD, 10**10 + turn)
            store.close_run(f"2027-{turn}", "by hand")
            store.status(PERIOD)

    jobs = [pool.submit(act, number) for number in range(12)]
    jobs.append(pool.submit(operate))
    for job in jobs:
        job.result(60)
    store.close()
    # A backend tells its statistics when it ends.
    crowd = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'crowd'"
    wait_until(lambda: postgres.execute(crowd) == [(0,)], "the crowd has gone")
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert postgres.execute(query) == [(0,)]
    held_cents = postgres.execute("SELECT sum(held_cents) FROM chargeonce.records")
    assert held_cents == [(postgres.money()[0],)]


def test_reconcilers_skip_what_another_is_taking(postgres: PostgresUnderTest) -> None:
    """Goal: none waits for another, and none gets what another is about to get."""
    postgres.open_run()
    for number in range(2):
        postgres.release(postgres.claimed(f"customer-{number}"), doubt=True)
        postgres.keep(message_id=f"message-{number}")
    postgres.pass_time(60)
    with holding(postgres, "SELECT FROM chargeonce.records ORDER BY due_at LIMIT 1 FOR UPDATE"):
        assert postgres.take_due() == "customer-1"
        assert postgres.take_due() is None
    with holding(postgres, "SELECT FROM chargeonce.kept_messages ORDER BY id LIMIT 1 FOR UPDATE"):
        kept = postgres.take_kept()
        assert kept is not None
        assert kept.delivery.envelope.message_id == "message-1"
        assert postgres.take_kept() is None
