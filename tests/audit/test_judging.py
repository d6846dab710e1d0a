"""Goal: each finding is made for its reason, and not without it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ops.audit.findings import MAX_PAYMENTS_NAMED, Finding, FindingKind
from ops.audit.judging import Alike, Case, judge, judge_alike, judge_run
from ops.audit.payments import Dispute, Payment
from shared.event import Fingerprint
from shared.ports import RecordLine, RunSums
from shared.record import RecordId, State

WHO = RecordId("acme", "2026-11")
DAY_SECONDS = 86_400
PAYMENT = Payment("ch_1", "pi_1", Fingerprint(5000, "usd", "cus_acme"), 0, "usage", 1_000_000, WHO)
LINE = RecordLine(
    WHO, PAYMENT.paid, State.CHARGED, "pi_1", 0, False, datetime(2026, 12, 1, tzinfo=UTC)
)


def other(payment_id: str = "pi_2", **fields: object) -> Payment:
    return replace(PAYMENT, charge_id=f"ch_of_{payment_id}", payment_id=payment_id, **fields)  # type: ignore[arg-type]


def kinds(line: RecordLine | None, *payments: Payment, status: str | None = None) -> list[str]:
    return [finding.kind for finding in judge(Case(WHO, line, payments, status))]


def test_agreement_is_no_finding() -> None:
    assert kinds(LINE, PAYMENT) == []
    assert kinds(replace(LINE, payment_id="ch_1"), PAYMENT) == []
    assert kinds(replace(LINE, state=State.DECLINED)) == []


def test_two_kept_payments_are_a_double_charge_and_the_unnamed_one_is_to_be_refunded() -> None:
    (finding,) = judge(Case(WHO, LINE, [other(), PAYMENT]))

    assert finding.kind is FindingKind.CHARGED_TWICE
    assert finding.payment_ids == ["pi_1", "pi_2"]
    assert finding.command == "stripe refunds create --payment-intent=pi_2"


def test_a_payment_that_was_given_back_does_not_count_twice() -> None:
    assert kinds(LINE, PAYMENT, other(refunded_cents=5000)) == ["refunded"]
    assert kinds(LINE, PAYMENT, other(refunded_cents=4999)) == ["charged_twice", "partly_refunded"]


@pytest.mark.parametrize("state", [State.DECLINED, State.REJECTED, State.CANCELED, State.PARKED])
def test_money_behind_a_record_that_says_that_none_moved(state: State) -> None:
    assert kinds(replace(LINE, state=state), PAYMENT) == ["paid_but_closed"]
    given_back = replace(PAYMENT, refunded_cents=5000)
    assert kinds(replace(LINE, state=state), given_back) == ["refunded"]


@pytest.mark.parametrize("state", [State.IN_PROGRESS, State.IN_DOUBT, State.PROCESSING])
def test_money_behind_a_record_that_nobody_finishes(state: State) -> None:
    unfinished = replace(LINE, state=state, held_cents=5000)
    assert kinds(unfinished, PAYMENT) == ["paid_but_unfinished"]
    assert kinds(replace(unfinished, is_leased=True), PAYMENT) == []
    assert kinds(unfinished) == []


def test_a_payment_without_a_record() -> None:
    (finding,) = judge(Case(WHO, None, [PAYMENT]))

    assert finding.kind is FindingKind.PAYMENT_WITHOUT_RECORD
    assert finding.command == "chargeonce adopt --payment pi_1"


@pytest.mark.parametrize(
    ("status", "said"), [(None, "does not exist"), ("canceled", "is canceled")]
)
def test_a_record_without_its_payment(status: str | None, said: str) -> None:
    (finding,) = judge(Case(WHO, LINE, [], status))

    assert finding.kind is FindingKind.RECORD_WITHOUT_PAYMENT
    assert said in finding.detail


def test_a_payment_beside_a_record_that_names_none_that_exists() -> None:
    assert kinds(LINE, other()) == ["record_without_payment", "payment_without_record"]


@pytest.mark.parametrize(
    ("recorded", "kind"),
    [
        (Fingerprint(4999, "usd", "cus_acme"), "amount_differs"),
        (Fingerprint(4999, "eur", "cus_acme"), "currency_differs"),
        (Fingerprint(5000, "usd", "cus_other"), "stripe_customer_differs"),
    ],
)
def test_differences(recorded: Fingerprint, kind: str) -> None:
    assert kinds(replace(LINE, fingerprint=recorded), PAYMENT) == [kind]


def test_a_second_payment_is_not_compared_with_the_record() -> None:
    assert kinds(LINE, PAYMENT, other(paid=Fingerprint(1, "eur", "cus_x"))) == ["charged_twice"]


def test_a_payment_that_is_marked_for_another() -> None:
    elsewhere = replace(PAYMENT, mark=RecordId("acme", "2026-10"))
    assert kinds(LINE, elsewhere) == ["marked_for_another"]
    assert kinds(LINE, replace(PAYMENT, mark=None)) == []


def test_a_finished_record_that_holds_money() -> None:
    assert kinds(replace(LINE, held_cents=1), PAYMENT) == ["held_though_final"]


def test_disputes_say_how_much_and_how_far() -> None:
    disputes = [Dispute("du_1", "ch_1", 1000, "lost"), Dispute("du_2", "ch_1", 5000, "won_back")]
    first, second = judge(Case(WHO, LINE, [replace(PAYMENT, disputes=disputes)]))

    assert (first.kind, second.kind) == (FindingKind.DISPUTED, FindingKind.DISPUTED)
    assert first.detail == "10.00 USD of pi_1 50.00 USD disputed (du_1, lost)"
    assert second.detail == "pi_1 50.00 USD disputed (du_2, won_back)"


def test_a_run_is_held_against_the_sum_of_its_records() -> None:
    right = RunSums("2026-11", "usd", 700, 5000, 700, 5000)
    assert list(judge_run(right)) == []
    assert [each.kind for each in judge_run(replace(right, held_cents=701))] == ["run_sums_differ"]
    (charged,) = judge_run(replace(right, records_charged_cents=0))
    assert charged.command == "chargeonce run show --period 2026-11"


def suspected(*alike: Alike) -> list[Finding]:
    return list(judge_alike(alike, 20 * DAY_SECONDS))


def at(day: float, *, known: bool = False, **fields: object) -> Alike:
    payment = other(f"pi_day_{day}", created=1_000_000 + int(day * DAY_SECONDS), **fields)
    return Alike(payment if known else replace(payment, mark=None), known)


def test_alike_payments_close_together_are_suspected_when_one_is_unknown() -> None:
    (finding,) = suspected(at(0), at(20, known=True))

    assert finding.kind is FindingKind.CHARGED_TWICE_SUSPECTED
    assert (finding.record_id, finding.stripe_customer_id) == (WHO, "cus_acme")
    assert finding.command == "stripe charges list --customer=cus_acme"
    assert suspected(at(0), at(1)) != []
    assert suspected(at(0), at(20.1)) == []
    assert suspected(at(0, known=True), at(1, known=True)) == []
    assert suspected(at(0), at(1, refunded_cents=5000)) == []
    assert suspected(at(0)) == []


def test_a_large_cluster_is_counted_and_named_in_part() -> None:
    (finding,) = suspected(*(at(day) for day in range(1000)))

    assert finding.detail.startswith("1000 payments of 50.00 USD each")
    assert len(finding.payment_ids) == MAX_PAYMENTS_NAMED


def test_clusters_that_lie_apart_are_told_apart() -> None:
    findings: Sequence[Finding] = suspected(at(0), at(1), at(50), at(51), at(100))

    assert [list(each.payment_ids) for each in findings] == [
        ["pi_day_0", "pi_day_1"],
        ["pi_day_50", "pi_day_51"],
    ]


def test_every_kind_says_what_it_means_and_names_a_command() -> None:
    for kind in FindingKind:
        finding = Finding(kind, "", WHO, "cus_acme", ["pi_1"], "2026-11")
        assert kind.meaning.endswith(".")
        assert finding.command.startswith(("chargeonce ", "stripe "))


def test_commands_survive_a_shell() -> None:
    hostile = RecordId("-x; rm -rf '/'", "2026-11")
    assert Finding(FindingKind.REFUNDED, "", hostile).command == (
        """chargeonce show --customer='-x; rm -rf '"'"'/'"'"'' --period 2026-11"""
    )
