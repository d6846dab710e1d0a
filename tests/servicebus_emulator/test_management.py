"""Goal: every request gets an answer that says what became of it, also one that makes no sense."""

from uuid import UUID, uuid4

import pytest

from local.servicebus_emulator import management, outgoing
from local.servicebus_emulator.faults import Fault, FaultKind
from local.servicebus_emulator.performatives import Detach
from local.servicebus_emulator.queues import Entry
from local.servicebus_emulator.wire_types import Array, Symbol, Value
from tests.servicebus_emulator.peer import Desk, Peer, error_in, refusal, request
from tests.servicebus_emulator.support import (
    EPOCH,
    encoded_message,
    message,
    section,
    token_of,
)


@pytest.fixture
def peer(desk: Desk) -> Peer:
    return connected(desk, "billing/$management")


def connected(desk: Desk, node: str) -> Peer:
    peer = desk.peer()
    peer.attach_receiver(node)
    peer.give_credit(100)
    peer.attach_sender(node)
    peer.listen()
    return peer


def locked(desk: Desk, message_id: str = "m-1") -> UUID:
    queue = desk.hub.broker.source("billing")
    queue.publish([message(message_id)])
    entry = queue.lock_next()
    assert entry is not None
    return token_of(entry.lock_token)


def ask(peer: Peer, operation: str, body: Value) -> tuple[Value, Value, Value]:
    """Status, condition and body of the answer."""
    peer.ask(operation, body)
    properties, answer = peer.answer()
    assert isinstance(properties["statusDescription"], str)
    return properties["statusCode"], properties.get("errorCondition"), answer


def test_renewing(desk: Desk, peer: Peer) -> None:
    token = locked(desk)
    desk.pass_time(10)

    status, condition, body = ask(peer, "renew-lock", {"lock-tokens": Array((token,))})
    assert (status, condition) == (200, None)
    assert body == {"expirations": Array((round((EPOCH + 70) * 1000),))}


def test_a_lost_lock(peer: Peer) -> None:
    tokens: dict[str, Value] = {"lock-tokens": Array((uuid4(),))}
    lost = (410, "com.microsoft:message-lock-lost", None)

    assert ask(peer, "renew-lock", tokens) == lost
    assert ask(peer, "update-disposition", {"disposition-status": "completed", **tokens}) == lost


@pytest.mark.parametrize(
    ("status", "kind"),
    [("completed", "complete"), ("abandoned", "abandon"), ("suspended", "dead-letter")],
)
def test_settling(desk: Desk, peer: Peer, status: str, kind: str) -> None:
    tokens = Array((locked(desk, "a"), locked(desk, "b")))
    body: Value = {"disposition-status": status, "lock-tokens": tokens, "deadletter-reason": "why"}

    assert ask(peer, "update-disposition", body) == (200, None, {})
    records = list(desk.hub.journal.settlements())
    assert [(each.kind, each.route, each.outcome) for each in records] == [
        (kind, "management", "applied")
    ] * 2
    assert desk.hub.broker.source("billing").counts().locked == 0
    reasons = [dead.dead_letter_reason for dead in dead_letters(desk)]
    assert reasons == (["why", "why"] if kind == "dead-letter" else [])


def dead_letters(desk: Desk) -> list[Entry]:
    return desk.hub.broker.source("billing/$DeadLetterQueue").peek(1, 10)


@pytest.mark.parametrize("cuts", [True, False])
def test_a_settlement_can_be_lost_here_too(desk: Desk, peer: Peer, cuts: bool) -> None:
    desk.hub.faults.add(Fault(FaultKind.SETTLEMENT_LOST, cuts=cuts))
    tokens = Array((locked(desk),))
    peer.ask("update-disposition", {"disposition-status": "completed", "lock-tokens": tokens})

    assert peer.transfers() == []
    assert peer.transport.is_aborted == cuts
    assert desk.hub.broker.source("billing").counts().locked == 0


@pytest.mark.parametrize("acts", [True, False])
def test_a_timeout_with_and_without_effect(desk: Desk, peer: Peer, acts: bool) -> None:
    desk.hub.faults.add(Fault(FaultKind.MANAGEMENT_TIMEOUT, acts=acts))
    body = {"messages": [{"message": encoded_message(scheduled_at=EPOCH + 60)}]}

    assert ask(peer, "schedule-message", body) == (408, "com.microsoft:timeout", None)
    assert desk.hub.broker.source("billing").counts().scheduled == acts


def test_what_is_not_there_is_not_implemented(desk: Desk, peer: Peer) -> None:
    missing = (501, "amqp:not-implemented", None)
    token = Array((locked(desk),))

    for operation in ("receive-by-sequence-number", "get-message-sessions", "add-rule", "dance"):
        assert ask(peer, operation, {}) == missing
    deferred: Value = {"disposition-status": "defered", "lock-tokens": token}
    assert ask(peer, "update-disposition", deferred) == missing


def test_peeking(desk: Desk, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {"from-sequence-number": 1, "message-count": 10}
    assert ask(peer, "peek-message", everything)[0] == 204

    desk.hub.broker.source("billing").publish([message("a"), message("b"), message("c")])
    assert len(peeked(peer, everything)) == 3
    assert len(peeked(peer, {**everything, "message-count": 2})) == 2
    assert len(peeked(peer, {**everything, "from-sequence-number": 3})) == 1
    monkeypatch.setattr(management, "MAXIMUM_PEEKED_BYTES", 400)
    assert len(peeked(peer, everything)) == 2
    monkeypatch.setattr(management, "MAXIMUM_PEEKED_BYTES", 1)
    assert len(peeked(peer, everything)) == 1, "one may be as large as it is"


def peeked(peer: Peer, body: Value) -> list[Value]:
    status, _, answer = ask(peer, "peek-message", body)
    assert status == 200
    assert isinstance(answer, dict)
    messages = answer["messages"]
    assert isinstance(messages, list)
    return messages


def test_scheduling_and_cancelling(desk: Desk, peer: Peer) -> None:
    encoded = encoded_message(scheduled_at=EPOCH + 60)
    status, _, body = ask(peer, "schedule-message", {"messages": [{"message": encoded}] * 2})
    assert (status, body) == (200, {"sequence-numbers": Array((1, 2))})

    cancel = {"sequence-numbers": Array((1, 2))}
    assert ask(peer, "cancel-scheduled-message", cancel) == (200, None, {})
    assert desk.hub.broker.source("billing").counts().scheduled == 0
    not_found = (404, "com.microsoft:message-not-found", None)
    assert ask(peer, "cancel-scheduled-message", cancel) == not_found


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("renew-lock", None),
        ("renew-lock", {}),
        ("renew-lock", {"lock-tokens": "text"}),
        ("update-disposition", {"lock-tokens": Array(())}),
        ("update-disposition", {"lock-tokens": Array(()), "disposition-status": 3}),
        ("peek-message", {"message-count": 3}),
        ("peek-message", {"message-count": "3", "from-sequence-number": 1}),
        ("schedule-message", {}),
        ("schedule-message", {"messages": ["text"]}),
        ("schedule-message", {"messages": [{"message": encoded_message()}]}),
        ("schedule-message", {"messages": [{"message": b"\x40"}]}),
        ("cancel-scheduled-message", {}),
    ],
)
def test_requests_that_make_no_sense(peer: Peer, operation: str, body: Value) -> None:
    status, condition, _ = ask(peer, operation, body)

    assert (status, condition) == (400, "com.microsoft:argument-error")


def test_topics_schedule_and_do_nothing_else(desk: Desk) -> None:
    peer = connected(desk, "usage/$management")
    body = {"messages": [{"message": encoded_message(scheduled_at=EPOCH + 1)}]}
    assert ask(peer, "schedule-message", body)[0] == 200

    peek = {"from-sequence-number": 1, "message-count": 1}
    assert ask(peer, "peek-message", peek)[1] == "amqp:not-allowed"


def test_nothing_is_scheduled_among_dead_letters(desk: Desk) -> None:
    peer = connected(desk, "billing/$DeadLetterQueue/$management")
    body = {"messages": [{"message": encoded_message(scheduled_at=EPOCH + 1)}]}

    assert ask(peer, "schedule-message", body)[1] == "amqp:not-allowed"


# Requests as such.


def test_a_request_without_a_way_back_is_rejected(desk: Desk) -> None:
    peer = desk.peer()
    peer.attach_sender("billing/$management")
    peer.ask("peek-message", {})

    assert refusal(peer) == "amqp:precondition-failed"


@pytest.mark.parametrize(
    "payload",
    [b"\x40", section(0x77, {}), section(0x73, ["id"]) + section(0x77, {}), section(0x73, "id")],
)
def test_what_is_no_request_is_rejected(peer: Peer, payload: bytes) -> None:
    peer.send(payload)

    assert refusal(peer) == "amqp:decode-error"


def test_answers_go_where_the_request_says(desk: Desk) -> None:
    peer = desk.peer()
    for handle, name in ((2, "first"), (3, "second"), (4, "third")):
        peer.attach_receiver("billing/$management", handle, reply_to=name)
        peer.give_credit(10, handle)
    peer.attach_sender("billing/$management")
    peer.listen()
    for reply_to, handle in (("second", 3), ("unknown", 4)):
        peer.ask("peek-message", {}, reply_to=reply_to)
        ((transfer, _),) = peer.transfers()
        assert transfer.handle == handle


def test_answers_wait_for_credit(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = desk.peer()
    peer.attach_receiver("billing/$management")
    peer.attach_sender("billing/$management")
    peer.listen()
    monkeypatch.setattr(outgoing, "MAXIMUM_PENDING_RESPONSES", 2)
    peer.ask("peek-message", {})
    peer.ask("peek-message", {})
    assert peer.transfers() == []
    peer.give_credit(1)
    assert len(peer.transfers()) == 1
    peer.ask("peek-message", {})
    peer.ask("peek-message", {})

    (detach,) = peer.heard(Detach)
    assert error_in(detach.error).condition == "amqp:resource-limit-exceeded"


# Tokens.


@pytest.mark.parametrize(
    ("properties", "status"),
    [
        ({"operation": "put-token", "name": "sb://host/billing"}, 202),
        ({"operation": "put-token"}, 400),
        ({"operation": "delete-token", "name": "sb://host/billing"}, 501),
    ],
)
def test_tokens(desk: Desk, properties: dict[Value, Value], status: int) -> None:
    peer = connected(desk, "$cbs")
    peer.send(section(0x73, ["id"]) + section(0x74, properties) + section(0x77, "token"))

    assert peer.answer()[0]["status-code"] == status


def test_a_request_keeps_the_type_of_its_id(desk: Desk) -> None:
    peer = connected(desk, "billing/$management")
    message_id = uuid4()
    payload = request("peek-message", {}).replace(
        section(0x73, ["request-1", None, None, None, "here"]),
        section(0x73, [message_id, None, None, None, Symbol("ignored")]),
    )
    peer.send(payload)

    ((_, answer),) = peer.transfers()
    assert section(0x73, [None, None, None, None, None, message_id]) in answer
