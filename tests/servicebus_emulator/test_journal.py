"""Goal: what reached the broker is kept, the newest of it at least."""

from uuid import uuid4

from local.servicebus_emulator.journal import (
    DeliveryRecord,
    Journal,
    RenewalOutcome,
    RenewalRecord,
    Route,
    SettlementKind,
    SettlementOutcome,
    SettlementRecord,
)

TOKEN = uuid4()
SETTLEMENT = SettlementRecord(
    "q", "m", TOKEN, SettlementKind.ABANDON, SettlementOutcome.APPLIED, True, Route.LINK, 1.5
)
RENEWAL = RenewalRecord("q", None, TOKEN, RenewalOutcome.SERVER_BUSY, 2.5)
DELIVERY = DeliveryRecord("q", "m", TOKEN, 3, 3.5)


def test_records_survive_json() -> None:
    assert SettlementRecord.from_json(SETTLEMENT.to_json()) == SETTLEMENT
    assert RenewalRecord.from_json(RENEWAL.to_json()) == RENEWAL
    assert DeliveryRecord.from_json(DELIVERY.to_json()) == DELIVERY
    deleted = DeliveryRecord("q", "m", None, 0, 0.0)
    assert DeliveryRecord.from_json(deleted.to_json()) == deleted


def test_the_newest_are_kept() -> None:
    journal = Journal(maximum_records=2)
    tokens = [uuid4() for _ in range(3)]
    for token in tokens:
        journal.delivered(DeliveryRecord("q", f"id of {token}", token, 0, 0.0))
        journal.settled(SETTLEMENT)
        journal.renewed(RENEWAL)

    assert [record.lock_token for record in journal.deliveries()] == tokens[1:]
    assert len(list(journal.settlements())) == len(list(journal.renewals())) == 2
    assert [journal.message_id(token) for token in tokens] == [
        None,
        f"id of {tokens[1]}",
        f"id of {tokens[2]}",
    ]


def test_forgetting_leaves_what_can_still_be_settled() -> None:
    journal = Journal()
    journal.delivered(DELIVERY)
    journal.settled(SETTLEMENT)
    journal.renewed(RENEWAL)
    journal.forget()

    records = [*journal.deliveries(), *journal.settlements(), *journal.renewals()]
    assert records == []
    assert journal.message_id(TOKEN) == "m"
