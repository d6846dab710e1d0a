"""What Pub/Sub does when nobody told it otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ops.doctor.facts import Facts, Subscription
from ops.doctor.rule import error, warning

SECONDS_PER_DAY = 86_400
LEAST_RETENTION_DAYS = 7


@error(
    "An event that always fails is delivered until its retention is over, and is then lost.",
    "Give the subscription a dead-letter policy, and its topic a subscription.",
)
def no_dead_letter_policy(facts: Facts) -> Iterator[str]:
    """Without a policy Pub/Sub forgets in the end."""
    if facts.subscription is not None and facts.subscription.max_deliveries is None:
        yield f"{facts.subscription.name} has no dead-letter policy"


@error(
    "Pub/Sub then moves nothing to the dead letters: an event that always fails is delivered until "
    "its retention is over, and is then lost.",
    "Grant service-PROJECT_NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com roles/pubsub.publisher on "
    "the dead-letter topic and roles/pubsub.subscriber on the subscription.",
)
def dead_letters_not_granted(facts: Facts) -> Iterator[str]:
    """Pub/Sub's own account needs two grants to forward a message."""
    if facts.subscription is not None and facts.subscription.service_agent_may_forward is False:
        yield f"Pub/Sub's own account may not forward what fails in {facts.subscription.name}"


@error(
    "A topic without a subscription keeps nothing: every dead letter is lost.",
    "Make a subscription of the dead-letter topic that never expires.",
)
def dead_letters_lost(facts: Facts) -> Iterator[str]:
    """Somebody must be able to take a dead letter."""
    if facts.dead_letter_subscriptions == ():
        yield "the dead-letter topic has no subscription"


@error(
    "A subscription that is idle for so long is deleted with all that it keeps; billing is idle "
    "between periods, and dead letters are rare.",
    "Set its expiration to never.",
)
def subscription_expires(facts: Facts) -> Iterator[str]:
    """By itself a subscription expires after 31 idle days."""
    for subscription in _all_subscriptions(facts):
        if math.isfinite(subscription.expires_after_seconds):
            days = subscription.expires_after_seconds / SECONDS_PER_DAY
            yield f"{subscription.name} is deleted after {days:g} idle days"


@error(
    "Pub/Sub delivers again at once, so an event that must wait for a minute uses up its "
    "deliveries in seconds.",
    "Give the subscription a retry policy of 10 s to 600 s.",
)
def no_retry_policy(facts: Facts) -> Iterator[str]:
    """Redelivery must be paced."""
    if facts.subscription is not None and facts.subscription.backoff_seconds is None:
        yield f"{facts.subscription.name} has no retry policy"


@error(
    "Exactly-once delivery exists for pull subscriptions alone; it is refused or has no effect.",
    "Turn it off: the record is what charges once.",
)
def exactly_once_with_push(facts: Facts) -> Iterator[str]:
    """Exactly-once delivery and push exclude each other."""
    subscription = facts.subscription
    if subscription is not None and subscription.pushes and subscription.delivers_exactly_once:
        yield f"{subscription.name} pushes, and asks for exactly-once delivery"


@warning(
    "Every event is delivered once for each subscription. Nobody is charged twice for it, but each "
    "charge is work for two, and the slower one leaves dead letters of events that were charged.",
    "Keep either the push or the pull subscription, unless the other one belongs to somebody else.",
)
def delivered_to_two_subscriptions(facts: Facts) -> Iterator[str]:
    """One topic, one subscription that bills."""
    if len(facts.event_subscriptions) > 1:
        yield f"the topic has the subscriptions {', '.join(facts.event_subscriptions)}"


@error(
    "The function lets in only who proves to be the push account: nothing is charged.",
    "Give push_config an oidc_token with the push service account.",
)
def push_without_token(facts: Facts) -> Iterator[str]:
    """What is pushed must say who pushes it."""
    subscription, settings = facts.subscription, facts.settings
    if subscription is None or settings is None or settings.pubsub.push.auth == "none":
        return
    if subscription.pushes and not subscription.push_has_token:
        yield f"{subscription.name} pushes without a token"


@warning(
    "An event or a dead letter that waits for longer is lost.",
    "Keep messages for 31 days, and have an alert on the age of the oldest.",
)
def retention_short(facts: Facts) -> Iterator[str]:
    """Pub/Sub forgets."""
    for subscription in _all_subscriptions(facts):
        seconds = subscription.retention_seconds
        if seconds is not None and seconds < LEAST_RETENTION_DAYS * SECONDS_PER_DAY:
            yield f"{subscription.name} keeps messages for {seconds / SECONDS_PER_DAY:g} days"


def _all_subscriptions(facts: Facts) -> Iterator[Subscription]:
    if facts.subscription is not None:
        yield facts.subscription
    yield from facts.dead_letter_subscriptions or ()


RULES = (
    no_dead_letter_policy,
    dead_letters_not_granted,
    dead_letters_lost,
    subscription_expires,
    no_retry_policy,
    exactly_once_with_push,
    delivered_to_two_subscriptions,
    push_without_token,
    retention_short,
)
