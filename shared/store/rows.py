"""Between the rows of the database and the objects of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from shared.event import Fingerprint
from shared.ports import (
    ClaimRequest,
    Delivery,
    Envelope,
    FoundPayment,
    KeptMessage,
    Note,
    ParkedEvent,
    ParkedMessage,
    Prospect,
    RecordLine,
    Run,
)
from shared.record import UNFINISHED, Flow, Record, RecordId, State, Verdict
from shared.store.text import storable, storable_envelope, storable_or_none

Row = Mapping[str, Any]


def claim_parameters(request: ClaimRequest) -> dict[str, Any]:
    """What the claim statement is given."""
    event = request.event
    return {
        "customer_id": event.customer_id,
        "billing_period": event.billing_period,
        "key": request.key,
        "stripe_customer_id": event.stripe_customer_id,
        "amount_cents": event.amount_cents,
        "currency": event.currency,
        "attempt": event.attempt,
        "payment_method_id": event.payment_method_id,
        "flow": request.flow,
        "create_parameters": Jsonb(dict(request.create_parameters)),
        "require_run": request.require_run,
        "lease_seconds": request.lease_seconds,
        "token": request.token,
        "note": envelope_parameter(request.envelope),
        "body": request.body,
    }


def envelope_parameter(envelope: Envelope) -> Jsonb:
    """A delivery about which the database itself will say what was decided."""
    return Jsonb(_envelope_fields(envelope))


def note_parameter(note: Note) -> Jsonb:
    """A delivery and what was decided about it."""
    return Jsonb(
        {
            **_envelope_fields(note.envelope),
            "decision": note.decision,
            "code": storable_or_none(note.code),
            "request_id": storable_or_none(note.request_id),
        }
    )


def parked_parameters(parked: ParkedEvent | None) -> tuple[Jsonb | None, bytes | None]:
    """A message that is about to be dead-lettered: what is said about it, and its body."""
    if parked is None:
        return None, None
    description = storable(parked.description)
    return Jsonb({"reason": parked.reason, "description": description}), parked.body


def lost_row_parameter(record: Record) -> Jsonb:
    """What it takes to bring back a row that the database lost."""
    fingerprint = record.fingerprint
    return Jsonb(
        {
            "customer_id": record.customer_id,
            "billing_period": record.billing_period,
            "key": record.key,
            "stripe_customer_id": fingerprint.stripe_customer_id,
            "amount_cents": fingerprint.amount_cents,
            "currency": fingerprint.currency,
            "attempt": record.attempt,
            "fence": record.fence,
            "attempt_fence": record.attempt_fence,
            "flow": record.flow,
            "create_parameters": dict(record.create_parameters),
            "create_number": record.create_number,
            "payment_method_id": record.payment_method_id,
            "doubts": record.doubts,
            "create_in_doubt": record.create_in_doubt,
            "attempt_started_at": record.attempt_started_at.isoformat(),
        }
    )


def found_parameter(found: FoundPayment) -> Jsonb:
    """What it takes to bring back the row of a payment that was found at Stripe."""
    fingerprint = found.fingerprint
    return Jsonb(
        {
            "customer_id": found.record_id.customer_id,
            "billing_period": found.record_id.billing_period,
            "key": found.key,
            "stripe_customer_id": fingerprint.stripe_customer_id,
            "amount_cents": fingerprint.amount_cents,
            "currency": fingerprint.currency,
            "attempt": found.attempt,
            "fence": 1,
            "attempt_fence": 1,
            "flow": found.flow,
            "create_parameters": {
                name: storable(value) for name, value in found.create_parameters.items()
            },
            "create_number": 0,
            "payment_method_id": found.payment_method_id,
            "payment_id": found.payment_id,
            "doubts": 1,
            "create_in_doubt": False,
            "attempt_started_at": found.created_at.isoformat(),
            "is_own": found.is_own,
        }
    )


def read_record(row: Row | None) -> Record | None:
    """A record from its row as JSON."""
    if row is None:
        return None
    return Record(
        customer_id=row["customer_id"],
        billing_period=row["billing_period"],
        key=row["key"],
        fingerprint=Fingerprint(row["amount_cents"], row["currency"], row["stripe_customer_id"]),
        attempt=row["attempt"],
        state=State(row["state"]),
        fence=row["fence"],
        attempt_fence=row["attempt_fence"],
        flow=Flow(row["flow"]),
        create_parameters=row["create_parameters"],
        create_number=row["create_number"],
        payment_method_id=row["payment_method_id"],
        payment_id=row["payment_id"],
        verdict=_read_verdict(row),
        code=row["code"],
        held_cents=row["held_cents"],
        doubts=row["doubts"],
        create_in_doubt=row["create_in_doubt"],
        attempt_started_at=datetime.fromisoformat(row["attempt_started_at"]),
        lease_until=datetime.fromisoformat(row["lease_until"]),
        previous_claim_at=_read_time(row["previous_claim_at"]),
        updated_at=datetime.fromisoformat(row["updated_at"]),
    )


def read_record_line(columns: Sequence[Any]) -> RecordLine:
    """A record as an audit sees it, from the columns that `queries.RECORD_LINE` selects."""
    customer_id, billing_period, stripe_customer_id, amount_cents, currency, state = columns[:6]
    payment_id, held_cents, is_leased, started_at = columns[6:10]
    return RecordLine(
        record_id=RecordId(customer_id, billing_period),
        fingerprint=Fingerprint(amount_cents, currency, stripe_customer_id),
        state=State(state),
        payment_id=payment_id,
        held_cents=held_cents,
        is_leased=is_leased,
        started_at=started_at,
    )


def read_run(row: Row) -> Run:
    """A run from its row as JSON."""
    return Run(
        billing_period=row["billing_period"],
        currency=row["currency"],
        expected_cents=row["expected_cents"],
        cap_cents=row["cap_cents"],
        held_cents=row["held_cents"],
        charged_cents=row["charged_cents"],
        is_open=row["is_open"],
        closed_reason=row["closed_reason"],
        opened_at=datetime.fromisoformat(row["opened_at"]),
    )


def read_kept(row: Row, body: bytes, age_seconds: float) -> KeptMessage:
    """A kept message from its row as JSON without the body."""
    envelope = Envelope(row["transport"], row["message_id"], None, row["attributes"])
    return KeptMessage(
        number=row["id"],
        event_id=RecordId(row["customer_id"], row["billing_period"]),
        attempt=row["attempt"],
        delivery=Delivery(body, envelope),
        age_seconds=age_seconds,
    )


def read_prospect(row: Sequence[Any]) -> Prospect:
    """What the database holds for one customer and period."""
    stored_row, run, is_never_due, is_suspended, database_time = row
    record = read_record(stored_row)
    return Prospect(
        record=record,
        run=read_run(run) if run else None,
        awaits_operator=record is not None and record.state in UNFINISHED and is_never_due,
        is_suspended=is_suspended,
        database_time=database_time,
    )


def read_parked_message(row: Sequence[Any]) -> ParkedMessage:
    """A dead-lettered message from its row."""
    number, reason, description, body, *envelope, parked_at, resubmitted_at = row
    return ParkedMessage(
        number,
        ParkedEvent(reason, description, bytes(body)),
        Envelope(*envelope),
        parked_at,
        resubmitted_at,
    )


def _envelope_fields(envelope: Envelope) -> dict[str, Any]:
    kept = storable_envelope(envelope)
    return {
        "transport": kept.transport,
        "message_id": kept.message_id,
        "delivery_count": kept.delivery_count,
        "attributes": dict(kept.attributes),
    }


def _read_verdict(row: Row) -> Verdict | None:
    if row["verdict_state"] is None:
        return None
    return Verdict(State(row["verdict_state"]), row["verdict_code"], row["verdict_message"])


def _read_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
