"""Goal: no peer, whatever it says, brings anything but its own connection down.

Method: performatives whose fields hold any value that their types allow, in any order.
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from local.servicebus_emulator.performatives import (
    _LAYOUTS,
    Accepted,
    Attach,
    Begin,
    Close,
    Composite,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Rejected,
    SaslInit,
    Transfer,
    described,
)
from local.servicebus_emulator.wire_types import (
    Array,
    Decimal,
    Described,
    Symbol,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
)
from tests.servicebus_emulator.peer import Desk, request, terminus
from tests.servicebus_emulator.support import encoded_message, unhurried

VALUES = st.sampled_from(
    [
        None,
        True,
        -1,
        1.5,
        "text",
        b"bytes",
        Symbol("symbol"),
        UnsignedInt(7),
        UUID(int=1),
        Decimal(b"1234"),
        Array((UUID(int=1), UUID(int=2))),
        [None, ["nested"]],
        {"from-sequence-number": 1, "message-count": 5},
        {"lock-tokens": Array((UUID(int=1),)), "disposition-status": "completed"},
        {"messages": [{"message": encoded_message(scheduled_at=1e10)}]},
        Described("descriptor", {}),
    ]
)
ADDRESSES = st.sampled_from(
    ["billing", "usage", "$cbs", "billing/$management", "billing/$DeadLetterQueue", "nothing", ""]
)
TERMINI = st.one_of(
    st.builds(terminus, st.sampled_from([0x28, 0x29, 0x30]), st.one_of(ADDRESSES, VALUES)),
    st.builds(Described, VALUES, VALUES),
)
OUTCOMES = st.sampled_from(
    [
        described(outcome)
        for outcome in (Accepted(), Modified(True), Modified(), Rejected(Described("x", None)))
    ]
)
# Small numbers, so that handles and deliveries meet.
FIELD_VALUES: Final[dict[type, st.SearchStrategy[Any]]] = {
    type(None): st.none(),
    bool: st.booleans(),
    str: st.sampled_from(["", "link", "m-1"]),
    bytes: st.binary(max_size=4),
    Symbol: st.sampled_from(["ANONYMOUS", "x"]).map(Symbol),
    UnsignedByte: st.integers(0, 2).map(UnsignedByte),
    UnsignedShort: st.integers(0, 3).map(UnsignedShort),
    UnsignedInt: st.sampled_from([0, 1, 2, 3, 10, 512, 0x80013700, 2**32 - 1]).map(UnsignedInt),
    UnsignedLong: st.sampled_from([0, 1, 2**64 - 1]).map(UnsignedLong),
    Described: st.one_of(TERMINI, OUTCOMES),
    object: st.one_of(st.none(), VALUES, OUTCOMES),
}
PAYLOADS = st.one_of(
    st.just(encoded_message()),
    st.builds(request, st.sampled_from(["peek-message", "renew-lock", "x"]), VALUES),
    st.binary(max_size=20),
)
PERFORMATIVES = (
    Open,
    Begin,
    Attach,
    Attach,
    Flow,
    Transfer,
    Disposition,
    Detach,
    End,
    Close,
    SaslInit,
)


def any_performative(kind: type[Composite]) -> st.SearchStrategy[Composite]:
    make: Callable[..., Composite] = kind
    fields = [
        st.one_of(*(FIELD_VALUES[allowed] for allowed in each)) for each in _LAYOUTS[kind].allowed
    ]
    return st.tuples(*fields).map(lambda values: make(*values))


SAYINGS = st.lists(
    st.tuples(
        st.one_of(*map(any_performative, PERFORMATIVES)), PAYLOADS, st.sampled_from([0, 0, 0, 1])
    ),
    min_size=1,
    max_size=25,
)


@settings(unhurried, max_examples=60)
@given(SAYINGS)
def test_a_peer_harms_only_itself(sayings: list[tuple[Composite, bytes, int]]) -> None:
    desk = Desk()
    innocent = desk.peer()
    innocent.attach_receiver("other")
    innocent.give_credit(10)
    hostile = desk.peer()
    for performative, payload, channel in sayings:
        hostile.say(performative, payload, channel)
    hostile.connection.lost()

    innocent.attach_sender("other")
    innocent.listen()
    innocent.send(encoded_message("still here"))
    assert innocent.received_ids() == ["still here"]


@unhurried
@given(st.binary(max_size=100))
def test_bytes_harm_only_their_connection(data: bytes) -> None:
    desk = Desk()
    hostile = desk.peer()
    hostile.connection.receive(data)
    hostile.connection.lost()

    assert desk.peer().transport.is_closed is False
