"""What holds for the function app and for the consumer alike, over the real SDK and runtime.

Locks last a minute by the emulator's clock, which the tests move. After each test the broker's own
journal has to hold no abandon: that would bring a message back at once.
"""

import pytest

from local.servicebus_emulator import Fault as BrokerFault
from local.servicebus_emulator import FaultKind as BrokerFaultKind
from local.servicebus_emulator import Match as BrokerMatch
from local.servicebus_emulator import SettlementKind, SettlementOutcome
from local.stripe_simulator import FaultKind
from tests.support.malformed_bodies import MALFORMED_BODIES
from tests.support.servicebus import (
    COMPLETED,
    DEAD_LETTERED,
    Desk,
    Path,
    decisions,
    wait_until,
)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

CONFIRM = "/v1/payment_intents/*/confirm"
LOOK = "/v1/payment_intents/*"


def lose_answers(desk: Desk, name: str) -> None:
    """Let Stripe act, and nobody hear of it."""
    desk.fault(name, FaultKind.RESET, CONFIRM)
    desk.fault(name, FaultKind.RESET, LOOK, method="GET", count=None)


def wait_for_decisions(path: Path, message_id: str, count: int) -> None:
    """Wait until so many deliveries of a message have been decided."""
    wait_until(lambda: len(decisions(path, message_id)) == count)


def lock_lost(what: SettlementKind) -> tuple[SettlementKind, SettlementOutcome]:
    """A settlement that came too late."""
    return what, SettlementOutcome.LOCK_LOST


def test_event_is_charged_once_and_completed(billed: Desk, path: Path) -> None:
    """Goal: the usual case, and what the attempts table keeps of the delivery."""
    event = billed.customer("usual")
    billed.send(event, "usual-1", {"source": "meter", "number": 7})
    billed.wait_for("usual-1", COMPLETED)
    assert billed.charged_cents("usual") == [5000]
    assert billed.settlements("usual-1") == [COMPLETED]
    attempts = billed.execute(
        """
        SELECT DISTINCT transport, message_id, delivery_count FROM chargeonce.attempts
        WHERE customer_id = 'usual'
        """
    )
    assert attempts == [("servicebus", "usual-1", 1)]
    assert decisions(path, "usual-1") == ["charged"]


def test_same_event_in_another_message_is_completed_and_not_charged(
    billed: Desk, path: Path
) -> None:
    """Goal: a dead letter that an operator sent again, under a new message id, is harmless."""
    event = billed.customer("resent")
    for message_id in ("resent-1", "resent-2"):
        billed.send(event, message_id)
        billed.wait_for(message_id, COMPLETED)
    assert billed.charged_cents("resent") == [5000]
    assert decisions(path, "resent-2") == ["duplicate_prevented"]


def test_poison_is_dead_lettered_at_its_first_delivery(billed: Desk) -> None:
    """Goal: what can never be charged burns no deliveries, and an operator can read why."""
    poison = {f"poison-{number}": each for number, each in enumerate(MALFORMED_BODIES[::6])}
    for message_id, malformed in poison.items():
        billed.send(malformed.body, message_id, {"source": "meter"})
    for message_id in poison:
        billed.wait_for(message_id, DEAD_LETTERED)
    letters = billed.dead_letters()
    for message_id, malformed in poison.items():
        letter = letters[message_id]
        assert b"".join(letter.body) == malformed.body
        assert letter.dead_letter_reason == "InvalidEvent"
        assert str(letter.dead_letter_error_description).startswith(malformed.reason)
        assert billed.settlements(message_id) == [DEAD_LETTERED]
        assert [each.delivery_count for each in billed.deliveries(message_id)] == [0]
        parked = billed.execute(
            "SELECT body, attributes FROM chargeonce.parked_events WHERE message_id = %s",
            [message_id],
        )
        assert parked == [(malformed.body, {"source": "meter"})]


def test_decline_is_completed(billed: Desk, path: Path) -> None:
    """Goal: a declined card is asked once, not ten times."""
    event = billed.customer("declined")
    billed.fault("declined", FaultKind.DECLINE, CONFIRM)
    billed.send(event, "declined-1")
    billed.wait_for("declined-1", COMPLETED)
    assert billed.charged_cents("declined") == []
    assert decisions(path, "declined-1") == ["declined"]


def test_rejected_event_is_dead_lettered_with_its_reason(billed: Desk) -> None:
    """Goal: a customer that Stripe does not know is a matter for an operator."""
    event = billed.customer("unknown").replace(b"cus_unknown", b"cus_nobody")
    billed.send(event, "unknown-1")
    billed.wait_for("unknown-1", DEAD_LETTERED)
    assert billed.dead_letters()["unknown-1"].dead_letter_reason == "Rejected"


def test_unknown_outcome_is_left_and_comes_again_after_the_lock(billed: Desk, path: Path) -> None:
    """Goal: in doubt there is no abandon; the lock runs out, and the next delivery finds out.

    Method: with a lock of 1.5 real seconds, a message that went on being renewed would be renewed
    before they have passed.
    """
    billed.set_lock(1.5)
    event = billed.customer("doubt")
    lose_answers(billed, "doubt")
    billed.send(event, "doubt-1")
    wait_until(lambda: decisions(path, "doubt-1") == ["in_doubt"])
    assert billed.settlements("doubt-1") == []
    billed.stripe.clear_faults()
    billed.wait_for("doubt-1", COMPLETED)
    first, second = billed.deliveries("doubt-1")
    assert (first.delivery_count, second.delivery_count) == (0, 1)
    assert 1.5 <= second.at - first.at < 4.5
    assert billed.renewal_count("doubt-1") == 0
    assert billed.settlements("doubt-1") == [COMPLETED]
    assert billed.charged_cents("doubt") == [5000]
    assert decisions(path, "doubt-1") == ["in_doubt", "charged", "resolved"]


def test_near_the_limit_a_durable_event_is_handed_over(billed: Desk, path: Path) -> None:
    """Goal: a long outage of Stripe does not flood the dead letters; reconcile finishes it."""
    event = billed.customer("outage")
    lose_answers(billed, "outage")
    billed.send(event, "outage-1")
    for deliveries in (1, 2):
        wait_for_decisions(path, "outage-1", deliveries)
        billed.lapse_locks()
    billed.wait_for("outage-1", COMPLETED)
    assert decisions(path, "outage-1")[-1] == "handed_over"
    assert billed.settlements("outage-1") == [COMPLETED]
    assert "outage-1" not in billed.dead_letters()
    assert billed.state("outage") == "in_doubt"
    billed.stripe.clear_faults()
    billed.lapse_lease("outage")
    path.reconcile()
    assert billed.state("outage") == "charged"
    assert billed.charged_cents("outage") == [5000]


def test_lock_lost_while_stripe_answers_is_one_charge(billed: Desk, path: Path) -> None:
    """Goal: the lock runs out, a second consumer gets the message, and one charge is made.

    Method: Stripe has acted and its answer is on the way when the lock is let lapse.
    """
    event = billed.customer("lapsed")
    billed.fault("lapsed", FaultKind.DELAY, CONFIRM, answer_seconds=1.5)
    billed.send(event, "lapsed-1")
    wait_until(lambda: billed.charged_cents("lapsed") == [5000])
    billed.lapse_locks()
    wait_until(lambda: decisions(path, "lapsed-1")[:1] == ["in_progress_elsewhere"])
    billed.wait_for("lapsed-1", lock_lost(SettlementKind.COMPLETE))
    wait_until(lambda: "lock_lost" in decisions(path, "lapsed-1"))
    billed.lapse_locks()
    billed.wait_for("lapsed-1", COMPLETED)
    assert decisions(path, "lapsed-1") == [
        "in_progress_elsewhere",
        "charged",
        "lock_lost",
        "duplicate_prevented",
    ]
    assert [each.delivery_count for each in billed.deliveries("lapsed-1")] == [0, 1, 2]
    assert billed.charged_cents("lapsed") == [5000]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("refused", BrokerFault(BrokerFaultKind.SETTLEMENT_REFUSED)),
        ("silent", BrokerFault(BrokerFaultKind.SETTLEMENT_LOST, acts=False, cuts=True)),
        ("forgotten", BrokerFault(BrokerFaultKind.SETTLEMENT_LOST, cuts=True)),
    ],
)
def test_failed_settlement_raises_nothing_and_charges_once(
    billed: Desk, path: Path, name: str, fault: BrokerFault
) -> None:
    """Goal: the record is durable, so a settlement that fails costs another delivery at most."""
    event = billed.customer(name)
    match = BrokerMatch(entity=billed.queue, message_id=f"{name}-1", count=1)
    billed.emulator.add_fault(BrokerFault(fault.kind, match, acts=fault.acts, cuts=fault.cuts))
    billed.send(event, f"{name}-1")
    wait_until(lambda: "charged" in decisions(path, f"{name}-1"))
    wait_until(lambda: len(billed.settlements(f"{name}-1")) > 0)
    billed.lapse_locks()
    wait_until(lambda: billed.emulator.queue(billed.queue).locked == 0)
    assert billed.charged_cents(name) == [5000]
    kinds = {kind for kind, _ in billed.settlements(f"{name}-1")}
    assert kinds == {SettlementKind.COMPLETE}
