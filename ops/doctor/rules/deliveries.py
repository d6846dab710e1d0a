"""How often a message comes, and what becomes of it when it came too often."""

from __future__ import annotations

from collections.abc import Iterator

from ops.doctor.facts import Facts, Subscription
from ops.doctor.numbers import LONGEST_OUTAGE_HOURS
from ops.doctor.rule import error, warning

SECONDS_PER_HOUR = 3600.0


@error(
    "A message near its last delivery is handed over to the record. With another number it is "
    "dead-lettered before that, or handed over much too early.",
    "Set BILLING_MAX_DELIVERIES to the queue's maxDeliveryCount or the subscription's "
    "max_delivery_attempts.",
)
def deliveries_disagree(facts: Facts) -> Iterator[str]:
    """The broker's number of deliveries against ours."""
    limit = _limit(facts)
    if limit is None or facts.settings is None:
        return
    ours = facts.settings.rules.max_deliveries
    name, most = limit
    if ours != most:
        yield f"{name} allows {most} deliveries, and BILLING_MAX_DELIVERIES is {ours}"


@warning(
    "While the database is away every delivery is used up for nothing, and then all events are in "
    "the dead letters, where somebody has to send them back.",
    "Allow more deliveries (100 outlast a night), or a longer lock or back-off.",
)
def outage_uses_deliveries_up(facts: Facts) -> Iterator[str]:
    """Deliveries times their pace against a long outage."""
    limit = _limit(facts)
    if limit is None:
        return
    name, most = limit
    if facts.queue is not None:
        seconds = most * facts.queue.lock_seconds
    else:
        seconds = _paced_seconds(facts.subscription, most)
    if seconds < LONGEST_OUTAGE_HOURS * SECONDS_PER_HOUR:
        yield (
            f"the {most} deliveries of {name} last {seconds / SECONDS_PER_HOUR:.1f} hours without "
            f"a database, and should last {LONGEST_OUTAGE_HOURS:g}"
        )


@error(
    "Service Bus deletes what was not taken in time: that event is never charged.",
    "Set deadLetteringOnMessageExpiration to true.",
)
def expired_messages_deleted(facts: Facts) -> Iterator[str]:
    """An event that nobody took in time must be kept for somebody."""
    if facts.queue is not None and not facts.queue.dead_letters_expired:
        yield f"{facts.queue.name} does not dead-letter what expires"


@warning(
    "A dead letter that is sent back under its own message id is dropped without a word, and its "
    "event is not charged.",
    "Turn requiresDuplicateDetection off (only possible when the queue is made): the record is "
    "what charges once. Until then: `chargeonce dlq resubmit --fresh-ids`.",
)
def duplicates_detected(facts: Facts) -> Iterator[str]:
    """Duplicate detection helps nobody here, and loses what is sent again."""
    if facts.queue is not None and facts.queue.detects_duplicates:
        yield f"{facts.queue.name} detects duplicates"


@error(
    "Only receivers of sessions get messages from it, and ours is none: nothing is charged.",
    "Make the queue without requiresSession.",
)
def sessions_required(facts: Facts) -> Iterator[str]:
    """Our consumers are no receivers of sessions."""
    if facts.queue is not None and facts.queue.requires_session:
        yield f"{facts.queue.name} requires sessions"


def _limit(facts: Facts) -> tuple[str, int] | None:
    """Who limits deliveries, and to how many."""
    if facts.queue is not None:
        return facts.queue.name, facts.queue.max_deliveries
    subscription = facts.subscription
    if subscription is None or subscription.max_deliveries is None:
        return None
    return subscription.name, subscription.max_deliveries


def _paced_seconds(subscription: Subscription | None, deliveries: int) -> float:
    """How long deliveries last that fail at once; the back-off doubles from its least."""
    if subscription is None or subscription.backoff_seconds is None:
        return 0.0
    least, most = subscription.backoff_seconds
    return sum(min(most, least * 2.0 ** min(number, 30)) for number in range(deliveries - 1))


RULES = (
    deliveries_disagree,
    outage_uses_deliveries_up,
    expired_messages_deleted,
    duplicates_detected,
    sessions_required,
)
