"""How long things may take: locks and deadlines, leases, budgets and timeouts."""

from __future__ import annotations

from collections.abc import Iterator

from ops.doctor.facts import Facts
from ops.doctor.numbers import STRIPE_CALLS_WITHIN_A_DELIVERY
from ops.doctor.rule import error


@error(
    "The process refuses to start, so nothing is charged.",
    "Set it as it says; docs/settings.md has every setting.",
)
def settings_refused(facts: Facts) -> Iterator[str]:
    """Everything that shared/settings.py refuses: lease, budget and timeouts are among it."""
    yield from facts.settings_problems


@error(
    "The lock runs out under a charge: a second consumer takes the message, and this one cannot "
    "settle it any more.",
    "Set lockDuration to PT5M, which is the most that Service Bus allows.",
)
def lock_too_short(facts: Facts) -> Iterator[str]:
    """The lock of a message against a call of Stripe and the lease."""
    if facts.queue is not None:
        name, seconds = facts.queue.name, facts.queue.lock_seconds
        yield from _too_short(facts, f"the lock of {name}", seconds)


@error(
    "Pub/Sub delivers the event again while it is being charged.",
    "Set the ack deadline to 600 s, which is the most that Pub/Sub allows.",
)
def ack_deadline_too_short(facts: Facts) -> Iterator[str]:
    """The ack deadline against a call of Stripe and the lease."""
    if facts.subscription is not None:
        name, seconds = facts.subscription.name, facts.subscription.ack_deadline_seconds
        yield from _too_short(facts, f"the ack deadline of {name}", seconds)


@error(
    "Pub/Sub pushes the event again while the first request still runs: twice the work, and the "
    "second request keeps a thread waiting.",
    "Make the ack deadline longer than the function's timeout (CLOUD_RUN_TIMEOUT_SECONDS).",
)
def timeout_above_ack_deadline(facts: Facts) -> Iterator[str]:
    """A pushed event must have been answered when its deadline is over."""
    if facts.subscription is None or facts.settings is None or not facts.subscription.pushes:
        return
    timeout_seconds = facts.settings.function.timeout_seconds
    deadline_seconds = facts.subscription.ack_deadline_seconds
    if timeout_seconds is not None and timeout_seconds >= deadline_seconds:
        yield (
            f"the function may take {timeout_seconds} s, and the ack deadline of "
            f"{facts.subscription.name} is {deadline_seconds:g} s"
        )


@error(
    "The host settles by itself what was not charged, loses locks under a charge, or cuts a charge "
    "off half-way.",
    "Change host.json as it says.",
)
def host_json_wrong(facts: Facts) -> Iterator[str]:
    """What the function app checks at its start too."""
    from azure_function.host_json import host_json_problems

    if facts.host is not None and facts.settings is not None:
        yield from host_json_problems(facts.host, facts.settings)


def _too_short(facts: Facts, what: str, seconds: float) -> Iterator[str]:
    if facts.settings is None:
        return
    rules = facts.settings.rules
    least_seconds = STRIPE_CALLS_WITHIN_A_DELIVERY * rules.attempt_seconds
    if seconds < least_seconds:
        yield (
            f"{what} is {seconds:g} s, less than {STRIPE_CALLS_WITHIN_A_DELIVERY} calls of Stripe "
            f"({rules.attempt_seconds:g} s each)"
        )
    elif seconds <= rules.lease_seconds:
        yield (
            f"{what} is {seconds:g} s, and must be longer than CLAIM_LEASE_SECONDS "
            f"({rules.lease_seconds:g})"
        )


RULES = (
    settings_refused,
    lock_too_short,
    ack_deadline_too_short,
    timeout_above_ack_deadline,
    host_json_wrong,
)
