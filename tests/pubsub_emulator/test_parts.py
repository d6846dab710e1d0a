"""The small parts: timetable, clock, journal, fault plan, names, and what an endpoint is sent."""

import json
import random
from datetime import UTC, datetime

import pytest

from local.pubsub_emulator import (
    Effect,
    Event,
    EventFilter,
    EventKind,
    Fault,
    InjectedFault,
    JournalOverflow,
    Limits,
    Outcome,
    Path,
    Target,
)
from local.pubsub_emulator import journal as journal_module
from local.pubsub_emulator.clock import Clock
from local.pubsub_emulator.errors import InvalidArgument
from local.pubsub_emulator.faults import FaultPlan
from local.pubsub_emulator.handlers import page_of
from local.pubsub_emulator.journal import Journal, names_resource
from local.pubsub_emulator.messages import Delivery, Draft, Message, check_draft
from local.pubsub_emulator.push_request import push_request
from local.pubsub_emulator.settings import PushSettings, SubscriptionSettings
from local.pubsub_emulator.timetable import Timetable
from tests.pubsub_emulator.desk import SUBSCRIPTION, TOPIC, Desk

PUBLISHED_AT = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)


def test_a_timetable_gives_what_is_due_in_order() -> None:
    timetable: Timetable[str] = Timetable()
    for key, due_at in (("late", 3.0), ("early", 1.0), ("tied", 1.0)):
        timetable.put(key, due_at)
    assert timetable.next_at() == 1.0
    assert timetable.pop_due(0.9) is None
    assert [timetable.pop_due(1.0) for _ in range(3)] == ["early", "tied", None]
    assert [key in timetable for key in ("early", "late")] == [False, True]


def test_a_timetable_forgets_what_was_moved_or_cancelled() -> None:
    timetable: Timetable[str] = Timetable()
    timetable.put("moved", 1.0)
    timetable.put("moved", 5.0)
    timetable.put("cancelled", 2.0)
    assert timetable.cancel("cancelled")
    assert not timetable.cancel("cancelled")
    assert timetable.pop_due(4.9) is None
    assert timetable.next_at() == 5.0
    assert timetable.pop_due(5.0) == "moved"
    assert timetable.next_at() is None


def test_a_timetable_keeps_in_bounds_what_it_has_forgotten() -> None:
    timetable: Timetable[int] = Timetable()
    for moment in range(10_000):
        timetable.put(moment % 10, float(moment))
    assert len(timetable) == 10
    assert len(timetable._heap) <= 64


def test_a_timetable_agrees_with_a_plain_dictionary() -> None:
    dice = random.Random(7)
    timetable: Timetable[int] = Timetable()
    plain: dict[int, float] = {}
    for _ in range(3000):
        key, moment = dice.randrange(20), dice.random()
        if dice.random() < 0.7:
            timetable.put(key, moment)
            plain[key] = moment
        else:
            assert timetable.cancel(key) == (plain.pop(key, None) is not None)
        assert timetable.next_at() == min(plain.values(), default=None)


def test_a_fast_clock() -> None:
    now = 100.0
    clock = Clock(20.0, lambda: now)
    now = 101.0
    assert (clock.real_now(), clock.now()) == (1.0, 20.0)
    assert (clock.to_real(10.0), clock.from_real(0.5)) == (0.5, 10.0)
    for speed in (0.0, -1.0, 1001.0, float("nan")):
        with pytest.raises(ValueError, match="speed"):
            Clock(speed)


def test_a_journal_is_filtered_by_everything() -> None:
    journal = Journal(lambda: 0.0)
    journal.record(EventKind.ACK, SUBSCRIPTION, message_id="1", outcome=Outcome.LOST)
    journal.record(EventKind.ACK, SUBSCRIPTION, message_id="2")
    journal.record(EventKind.NACK, SUBSCRIPTION, message_id="2")
    journal.record(EventKind.PUBLISHED, TOPIC, message_id="3")
    found = {
        wanted: [event.sequence for event in journal.find(wanted)]
        for wanted in (
            EventFilter(),
            EventFilter(kind=EventKind.ACK),
            EventFilter(kind=EventKind.ACK, outcome=Outcome.APPLIED),
            EventFilter(resource="billing"),
            EventFilter(resource=TOPIC),
            EventFilter(message_id="2", after=2),
        )
    }
    assert list(found.values()) == [[1, 2, 3, 4], [1, 2], [2], [1, 2, 3], [4], [3]]


def test_a_journal_that_forgot_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an assertion that nothing happened cannot pass because the record is gone."""
    monkeypatch.setattr(journal_module, "MAXIMUM_EVENTS", 2)
    journal = Journal(lambda: 0.0)
    for _ in range(3):
        journal.record(EventKind.ACK, SUBSCRIPTION)
    with pytest.raises(JournalOverflow):
        journal.find(EventFilter(kind=EventKind.NACK))
    assert len(journal.find(EventFilter(after=1))) == 2


def test_events_and_faults_survive_json() -> None:
    event = Event(7, 1.5, EventKind.EXTENSION, SUBSCRIPTION, "1", "a", 2, 10.0, Path.STREAM)
    assert Event.from_json(json.loads(json.dumps(event.to_json()))) == event
    fault = Fault(Target.ACK, Effect.REFUSE, "billing", "1", 2, 3, 0.5, "ABORTED", acts=True)
    injected = InjectedFault("fault-1", fault, 5, 4)
    assert InjectedFault.from_json(json.loads(json.dumps(injected.to_json()))) == injected


def test_an_improbable_fault_is_repeated_by_its_seed() -> None:
    def struck(seed: int) -> list[bool]:
        plan = FaultPlan(seed)
        plan.inject(Fault(Target.ACK, Effect.LOSE, probability=0.5))
        return [plan.strike(Target.ACK, SUBSCRIPTION) is not None for _ in range(100)]

    assert struck(1) == struck(1) != struck(2)
    assert 20 < sum(struck(1)) < 80


def test_the_first_fault_that_strikes_is_the_one() -> None:
    plan = FaultPlan(0)
    spent = Fault(Target.ACK, Effect.LOSE, resource="billing", count=1)
    other = Fault(Target.ACK, Effect.REFUSE, resource="other")
    lasting = Fault(Target.ACK, Effect.DELAY)
    for fault in (spent, other, lasting):
        plan.inject(fault)
    assert [plan.strike(Target.ACK, SUBSCRIPTION) for _ in range(2)] == [spent, lasting]
    assert plan.strike(Target.NACK, SUBSCRIPTION) is None


def test_a_fault_waits_for_its_turn_and_its_message() -> None:
    plan = FaultPlan(0)
    plan.inject(Fault(Target.ACK, Effect.LOSE, message_id="2", nth=2, count=1))
    struck = [plan.strike(Target.ACK, SUBSCRIPTION, one) for one in ("1", "2", "1", "2", "2")]
    assert [one is not None for one in struck] == [False, False, False, True, False]
    (injected,) = plan.injected()
    assert (injected.fitted, injected.struck) == (3, 1)


def test_faults_are_bounded() -> None:
    plan = FaultPlan(0)
    for _ in range(1000):
        plan.inject(Fault(Target.ACK, Effect.LOSE))
    with pytest.raises(ValueError, match="at most 1000"):
        plan.inject(Fault(Target.ACK, Effect.LOSE))


def test_a_resource_has_a_long_and_a_short_name() -> None:
    assert names_resource(None, SUBSCRIPTION)
    assert names_resource(SUBSCRIPTION, SUBSCRIPTION)
    assert names_resource("billing", SUBSCRIPTION)
    assert not names_resource("bill", SUBSCRIPTION)


def test_pages_lead_to_the_next_and_end() -> None:
    names = [f"name-{number}" for number in range(5)]
    seen: list[str] = []
    token = ""
    for _ in range(3):
        page, token = page_of(names, str, 2, token)
        seen += page
    assert (seen, token) == (names, "")
    with pytest.raises(InvalidArgument):
        page_of(names, str, -1, "")


@pytest.mark.parametrize(
    "draft",
    [
        Draft(),
        Draft(b"x" * 10_000_001),
        Draft(b"x", ordering_key="k" * 1025),
        Draft(b"x", {str(number): "" for number in range(101)}),
        Draft(b"x", {"": "unnamed"}),
        Draft(b"x", {"n" * 257: ""}),
        Draft(b"x", {"name": "v" * 1025}),
    ],
    ids=["empty", "large", "long key", "many", "unnamed", "long name", "long value"],
)
def test_messages_that_cannot_be(draft: Draft) -> None:
    with pytest.raises(InvalidArgument):
        check_draft(draft)


@pytest.mark.parametrize(
    "endpoint", ["", "host", "ftp://host/", "http://", "http://host:nonsense/", "http://[half/"]
)
def test_endpoints_that_cannot_be(endpoint: str) -> None:
    settings = SubscriptionSettings(SUBSCRIPTION, TOPIC, push=PushSettings(endpoint))
    with pytest.raises(InvalidArgument):
        settings.check(Limits())


def test_a_publish_takes_all_or_nothing() -> None:
    desk = Desk()
    with pytest.raises(InvalidArgument):
        desk.publish(b"good", b"")
    with pytest.raises(InvalidArgument):
        desk.publish(*[b"many"] * 1001)
    with pytest.raises(InvalidArgument):
        desk.publish(b"x" * 6_000_000, b"y" * 6_000_000)
    with pytest.raises(InvalidArgument):
        desk.publish()
    assert desk.take() == []


def test_headers_hold_only_what_headers_can() -> None:
    """Goal: no attribute can smuggle a line into the request, or spoil it."""
    push = PushSettings("http://127.0.0.1/", wrapped=False, writes_metadata=True)
    settings = SubscriptionSettings(SUBSCRIPTION, TOPIC, push=push)
    attributes = {
        "good": "value",
        "line": "a\r\nevil: 1",
        "bad name": "value",
        "evil\r\nname": "value",
        "umlaut": "ä",
        "x-goog-pubsub-message-id": "forged",
    }
    message = Message("7", Draft(b"body", attributes, "key"), PUBLISHED_AT)
    request = push_request(settings, Delivery("a", message, 1))
    assert request.body == b"body"
    assert request.headers == {
        "User-Agent": request.headers["User-Agent"],
        "good": "value",
        "x-goog-pubsub-subscription-name": SUBSCRIPTION,
        "x-goog-pubsub-message-id": "7",
        "x-goog-pubsub-publish-time": "2026-11-30T12:00:00.123Z",
        "x-goog-pubsub-ordering-key": "key",
    }
