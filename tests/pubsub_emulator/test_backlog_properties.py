"""Whatever consumers do: nothing is lost, order is kept, and the accounts are right."""

from collections import defaultdict
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local.pubsub_emulator.messages import Delivery
from local.pubsub_emulator.settings import DeadLetterPolicy, RetryPolicy
from tests.pubsub_emulator.desk import DEAD_LETTER_TOPIC, SUBSCRIPTION, Desk


class Subscription(RuleBasedStateMachine):
    """Two consumers of one subscription, which deal with their messages in any way."""

    ordered = False
    exactly_once = False

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(
            ordered=self.ordered,
            exactly_once=self.exactly_once,
            retry_policy=RetryPolicy(1.0, 4.0),
            dead_letter_policy=DeadLetterPolicy(DEAD_LETTER_TOPIC, 5),
        )
        self.published: dict[str, list[bytes]] = defaultdict(list)
        self.delivered: dict[str, set[bytes]] = defaultdict(set)
        self.acknowledged: set[bytes] = set()
        self.out: list[Delivery] = []

    @rule(key=st.sampled_from(["", "a", "b"]), messages=st.integers(1, 3))
    def publish(self, key: str, messages: int) -> None:
        """Publish some messages with a key, or without."""
        for _ in range(messages):
            data = b"%s-%d" % (key.encode(), len(self.published[key]))
            self.published[key].append(data)
            self.desk.publish(data, key=key)

    @rule(
        consumer=st.sampled_from(["me", "you"]),
        messages=st.integers(1, 4),
        outstanding=st.sampled_from([0, 3]),
    )
    def take(self, consumer: str, messages: int, outstanding: int) -> None:
        """Take messages, and check that they may come now."""
        taken = self.desk.take(messages, consumer, outstanding_messages=outstanding)
        for delivery in taken:
            self._check(delivery)
        self.out += taken

    @precondition(lambda self: self.out)
    @rule(choice=st.randoms(use_true_random=False))
    def acknowledge(self, choice: Random) -> None:
        """Acknowledge any delivery, perhaps one of long ago."""
        delivery = choice.choice(self.out)
        if self.desk.acknowledge(delivery):
            self.acknowledged.add(delivery.message.content.data)

    @precondition(lambda self: self.out)
    @rule(choice=st.randoms(use_true_random=False))
    def nack(self, choice: Random) -> None:
        """Give any delivery back."""
        self.desk.nack(choice.choice(self.out))

    @precondition(lambda self: self.out)
    @rule(choice=st.randoms(use_true_random=False), seconds=st.floats(0.5, 20.0))
    def extend(self, choice: Random, seconds: float) -> None:
        """Extend any delivery."""
        self.desk.extend(choice.choice(self.out), seconds)

    @precondition(lambda self: self.out)
    @rule(choice=st.randoms(use_true_random=False))
    def duplicate(self, choice: Random) -> None:
        """Have any delivery duplicated."""
        delivery = choice.choice(self.out)
        self.desk.broker.duplicate(SUBSCRIPTION, delivery.ack_id)

    @rule(seconds=st.floats(0.1, 12.0))
    def pass_time(self, seconds: float) -> None:
        """Let leases lapse and backoffs end."""
        self.desk.pass_time(seconds)

    @invariant()
    def accounts_are_right(self) -> None:
        """What is counted for flow control is what is out."""
        backlog = self.desk.broker._backlogs[SUBSCRIPTION]
        running = [one for one in backlog._leases if one in backlog._deadlines]
        counted = sum(load.messages for load in backlog._loads.values())
        assert counted == len(running)
        assert backlog.size_bytes == sum(
            entry.message.size_bytes for entry in backlog._entries.values()
        )

    def teardown(self) -> None:
        """Whatever is left can be had and settled, so nothing was lost."""
        left: set[bytes] = set()
        for _ in range(200):
            self.desk.pass_time(20.0)
            for delivery in self.desk.take(100, "last"):
                self._check(delivery)
                left.add(delivery.message.content.data)
                assert self.desk.acknowledge(delivery)
        everything = {data for messages in self.published.values() for data in messages}
        assert self.acknowledged | left | set(self.desk.dead_letters()) == everything
        backlog = self.desk.broker._backlogs[SUBSCRIPTION]
        kept = (backlog._entries, backlog._ordered_lanes, backlog._ready, backlog._leases)
        assert not any(kept)
        assert not any((backlog._loads, len(backlog._backoffs), len(backlog._deadlines)))

    def _check(self, delivery: Delivery) -> None:
        data, key = delivery.message.content.data, delivery.message.ordering_key
        if self.exactly_once:
            assert data not in self.acknowledged
        if self.ordered and key:
            before = self.published[key][: self.published[key].index(data)]
            assert set(before) <= self.delivered[key]
        self.delivered[key].add(data)


class OrderedSubscription(Subscription):
    """The same with message ordering."""

    ordered = True


class ExactlyOnceSubscription(Subscription):
    """The same with message ordering and exactly-once delivery."""

    ordered = True
    exactly_once = True


_settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestSubscription = Subscription.TestCase
TestSubscription.settings = _settings
TestOrderedSubscription = OrderedSubscription.TestCase
TestOrderedSubscription.settings = _settings
TestExactlyOnceSubscription = ExactlyOnceSubscription.TestCase
TestExactlyOnceSubscription.settings = _settings
