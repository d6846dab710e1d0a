"""How much happens at once, against what the database and Stripe bear."""

from __future__ import annotations

from collections.abc import Iterator

from ops.doctor.facts import Capacity, Facts
from ops.doctor.numbers import STRIPE_REQUESTS_PER_SECOND
from ops.doctor.rule import error, warning


@error(
    "A delivery waits for a thread while its lock or deadline runs.",
    "Make the concurrency of an instance, its threads and its pool the same number.",
)
def concurrency_above_threads(facts: Facts) -> Iterator[str]:
    """Every delivery that an instance is given needs a thread."""
    for part in facts.capacities:
        if part.concurrency > part.threads:
            yield f"{part.what} is given {part.concurrency} at once and has {part.threads} threads"


@warning(
    "A thread waits for a connection while its lock or deadline runs, and gives the message up.",
    "Leave DATABASE_POOL_SIZE unset: each thread then has a connection of its own.",
)
def pool_below_threads(facts: Facts) -> Iterator[str]:
    """Every thread needs a connection."""
    for part in facts.capacities:
        if part.pool_size < part.threads:
            yield f"{part.what} has {part.threads} threads and {part.pool_size} connections"


@error(
    "When all instances run, the database refuses connections: messages wait and come again.",
    "Allow fewer instances, or give the database more connections or a pooler.",
)
def too_many_connections(facts: Facts) -> Iterator[str]:
    """Instances times connections against the database."""
    for part in facts.capacities:
        if part.instances is None or part.database_connections is None:
            continue
        most = part.instances * part.pool_size + part.other_connections
        if most >= part.database_connections:
            yield (
                f"{part.instances} instances of {part.what} with {part.pool_size} connections each "
                f"and {part.other_connections} more, and the database allows "
                f"{part.database_connections}"
            )


@warning(
    "Stripe answers 429 to what is above its limit: charges wait and use up deliveries.",
    "Set STRIPE_MAX_REQUESTS_PER_SECOND, which is per instance, or allow fewer instances.",
)
def above_stripes_rate(facts: Facts) -> Iterator[str]:
    """Instances times their request rate against what Stripe allows the account."""
    if facts.settings is None:
        return
    rules = facts.settings.rules
    allowed = STRIPE_REQUESTS_PER_SECOND[rules.key_livemode is not False]
    for part in facts.capacities:
        if part.instances is None:
            continue
        if not rules.max_requests_per_second:
            yield f"{part.what} has no STRIPE_MAX_REQUESTS_PER_SECOND"
            continue
        most = _instances(part) * rules.max_requests_per_second
        if most > allowed:
            yield (
                f"{_instances(part)} instances with {rules.max_requests_per_second:g} requests a "
                f"second each come to {most:g}, and Stripe allows {allowed}"
            )


def _instances(part: Capacity) -> int:
    return (part.instances or 0) + part.other_callers


RULES = (concurrency_above_threads, pool_below_threads, too_many_connections, above_stripes_rate)
