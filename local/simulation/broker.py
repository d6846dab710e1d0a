"""The brokers of both clouds: at-least-once queues with locks that lapse, and dead letters."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from local.simulation.hazards import SETTLEMENT_HAZARDS, Hazard
from local.simulation.plan import Publication, customer_id_of
from local.simulation.stage import Process, Stage
from local.simulation.tasks import Task
from shared.errors import SettlementFailed

DELIVERIES_EXHAUSTED = "MaxDeliveryCountExceeded"


class MessageState(StrEnum):
    """Where a message is."""

    QUEUED = "queued"
    COMPLETED = "completed"
    DEAD = "dead"


@dataclass(slots=True, eq=False)
class Message:
    """One message of one broker.

    `visible_at_seconds` is when its lock, if any, lapses; `lock_number` names the newest lock.
    """

    message_id: str
    cloud: str
    body: bytes
    about: Publication
    visible_at_seconds: float
    state: MessageState = MessageState.QUEUED
    delivery_count: int = 0
    lock_number: int = 0
    dead_letter_reason: str | None = None
    is_resubmitted: bool = False


class Broker:
    """Delivers every message until it is settled.

    Args:
        stage: time, chance and the trace.
        lock_seconds: how long a delivery is hidden from the others.
        max_deliveries: after so many, the broker dead-letters a message by itself.
    """

    def __init__(self, stage: Stage, lock_seconds: float, max_deliveries: int) -> None:
        self._stage = stage
        self._lock_seconds = lock_seconds
        self._max_deliveries = max_deliveries
        self._idle: dict[Task, str] = {}
        self.messages: list[Message] = []
        self.on_dead: Callable[[Message], None] = lambda _: None

    def publish(self, cloud: str, body: bytes, about: Publication) -> None:
        """Accept a message."""
        message_id = f"message-{len(self.messages) + 1}"
        self._stage.tell("broker", "publish", f"{message_id} {cloud} {_describe(about)}")
        self.messages.append(Message(message_id, cloud, body, about, self._stage.now_seconds))
        self._wake_idle(cloud)

    def receive(self, process: Process, cloud: str) -> Message:
        """Wait for a message and lock it."""
        task = self._stage.scheduler.current
        while (message := self._take(cloud)) is None:
            self._idle[task] = cloud
            try:
                self._stage.scheduler.pause(self._seconds_to_next(cloud))
            finally:
                self._idle.pop(task, None)
        if message.delivery_count > 1:
            self._stage.cover("redelivery")
        process.tell("receive", f"{message.message_id} delivery {message.delivery_count}")
        return message

    def complete(self, message: Message, lock_number: int) -> bool:
        """Let go of a delivered message; False when its lock has lapsed."""
        if not self._is_locked(message, lock_number):
            return False
        message.state = MessageState.COMPLETED
        return True

    def dead_letter(self, message: Message, lock_number: int, reason: str) -> bool:
        """Move a delivered message to the dead letters; False when its lock has lapsed."""
        if not self._is_locked(message, lock_number):
            return False
        self._bury(message, reason)
        return True

    def resubmit(self, message: Message) -> None:
        """Publish a dead letter again, under a new id as brokers do."""
        message.is_resubmitted = True
        self._stage.cover("resubmission")
        self.publish(message.cloud, message.body, message.about)

    def unsettled(self) -> list[Message]:
        """The messages that will be delivered again."""
        return [message for message in self.messages if message.state is MessageState.QUEUED]

    def _take(self, cloud: str) -> Message | None:
        now_seconds = self._stage.now_seconds
        visible = [
            message
            for message in self.messages
            if message.state is MessageState.QUEUED
            and message.cloud == cloud
            and message.visible_at_seconds <= now_seconds
        ]
        while visible:
            message = self._stage.chance.choose(visible)
            visible.remove(message)
            if message.delivery_count >= self._max_deliveries:
                self._stage.tell("broker", "give_up", message.message_id)
                self._bury(message, DELIVERIES_EXHAUSTED)
                continue
            message.delivery_count += 1
            message.lock_number += 1
            message.visible_at_seconds = now_seconds + self._lock_seconds
            return message
        return None

    def _is_locked(self, message: Message, lock_number: int) -> bool:
        return (
            message.state is MessageState.QUEUED
            and message.lock_number == lock_number
            and message.visible_at_seconds > self._stage.now_seconds
        )

    def _bury(self, message: Message, reason: str) -> None:
        message.state = MessageState.DEAD
        message.dead_letter_reason = reason
        self._stage.cover(f"dead letter {reason}")
        self.on_dead(message)

    def _seconds_to_next(self, cloud: str) -> float | None:
        visible_at_seconds = [
            message.visible_at_seconds
            for message in self.messages
            if message.state is MessageState.QUEUED and message.cloud == cloud
        ]
        if not visible_at_seconds:
            return None
        return max(0.0, min(visible_at_seconds) - self._stage.now_seconds)

    def _wake_idle(self, cloud: str) -> None:
        for task, idle_cloud in self._idle.items():
            if idle_cloud == cloud:
                self._stage.scheduler.wake(task)


class SimulatedSettlement:
    """The settlement port of one delivery.

    Args:
        broker: where the message is.
        process: who settles it.
        message: the message, as it was received.
        on_settled: told when the broker accepted a settlement.
    """

    def __init__(
        self,
        broker: Broker,
        process: Process,
        message: Message,
        on_settled: Callable[[Message], None],
    ) -> None:
        self._broker = broker
        self._process = process
        self._message = message
        self._lock_number = message.lock_number
        self._on_settled = on_settled

    def complete(self) -> None:
        """See `Settlement.complete`."""
        self._settle(
            "complete", "", lambda: self._broker.complete(self._message, self._lock_number)
        )

    def dead_letter(self, reason: str, description: str) -> None:  # noqa: ARG002
        """See `Settlement.dead_letter`."""
        self._settle(
            "dead_letter",
            reason,
            lambda: self._broker.dead_letter(self._message, self._lock_number, reason),
        )

    def leave(self) -> None:
        """See `Settlement.leave`."""
        self._process.cross("settlement.leave.before")
        self._process.tell("settlement.leave", self._message.message_id)

    def _settle(self, name: str, reason: str, effect: Callable[[], bool]) -> None:
        process, stage = self._process, self._process.stage
        what = f"settlement.{name}"
        process.cross(f"{what}.before")
        hazard = stage.chance.strike(SETTLEMENT_HAZARDS)
        shown = f"{self._message.message_id} {reason}"
        if hazard is not None:
            stage.cover(f"hazard {hazard}")
        if hazard is Hazard.SETTLEMENT_LOST:
            process.tell(what, f"{shown} -> lost")
            raise SettlementFailed("lost")
        if not effect():
            stage.cover("lock lost")
            process.tell(what, f"{shown} -> lock lost")
            raise SettlementFailed("lock lost", lock_lost=True)
        process.tell(what, shown)
        self._on_settled(self._message)
        process.cross(f"{what}.after")
        if hazard is Hazard.SETTLEMENT_ANSWER_LOST:
            raise SettlementFailed("answer lost")


def _describe(about: Publication) -> str:
    return f"{customer_id_of(about.customer)} attempt {about.attempt} {about.kind}"
