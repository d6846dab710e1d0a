"""The database: losing commits is the one thing that can bring a second charge back."""

from __future__ import annotations

from collections.abc import Iterator

from ops.doctor.facts import Database, Facts
from ops.doctor.numbers import MOST_CLOCK_SKEW_SECONDS
from ops.doctor.rule import error

# Both answer when the commit is on disk here, and with a synchronous standby also there.
SAFE_COMMITS = ("on", "remote_apply")


@error("Without its records nothing is charged.", "Look at DATABASE_URL, the network and the role.")
def database_unreachable(facts: Facts) -> Iterator[str]:
    """The records must be there."""
    if facts.database is not None and facts.database.problem is not None:
        yield facts.database.problem


@error("The processes refuse to start, so nothing is charged.", "Run `chargeonce migrate`.")
def schema_old(facts: Facts) -> Iterator[str]:
    """A newer schema is compatible by rule."""
    database = _read(facts)
    if database is None or database.schema_version is None:
        return
    if database.schema_version < database.needed_version:
        yield (
            f"the schema is version {database.schema_version}, and this code needs "
            f"{database.needed_version}"
        )


@error(
    "Stripe's lists are read by time: with clocks that differ a payment can be missed. Tokens are "
    "refused too.",
    "Let both machines take their time from the network (NTP).",
)
def clocks_differ(facts: Facts) -> Iterator[str]:
    """The database's clock against the one here."""
    database = _read(facts)
    skew = database.clock_skew_seconds if database is not None else None
    if skew is not None and abs(skew) > MOST_CLOCK_SKEW_SECONDS:
        ahead = "ahead of" if skew > 0 else "behind"
        yield f"the database's clock is {abs(skew):.0f} s {ahead} the one here"


@error(
    "The database answers before a commit is safe: a crash loses the record of a charge, and the "
    "customer is charged again.",
    "`chargeonce migrate` sets it for the role; remove what sets it otherwise.",
)
def commits_not_synchronous(facts: Facts) -> Iterator[str]:
    """What was answered must be kept."""
    database = _read(facts)
    if database is None or database.synchronous_commit is None:
        return
    if database.synchronous_commit not in SAFE_COMMITS:
        yield f"synchronous_commit is {database.synchronous_commit}"


@error(
    "A crash can lose commits, and the customers of those are charged again.",
    "Turn it on in the server's configuration.",
)
def commits_not_durable(facts: Facts) -> Iterator[str]:
    """The server must write before it answers."""
    database = _read(facts)
    for name in database.durability_off if database is not None else ():
        yield f"{name} is off"


@error(
    "When its machine or zone is lost, so are the last commits, and those customers are charged "
    "again.",
    "Azure: highAvailability ZoneRedundant. Google Cloud: availability REGIONAL.",
)
def database_stands_alone(facts: Facts) -> Iterator[str]:
    """Production needs a synchronous standby."""
    if facts.highly_available is False:
        yield "the production database has no standby"


def _read(facts: Facts) -> Database | None:
    database = facts.database
    return database if database is not None and database.problem is None else None


RULES = (
    database_unreachable,
    schema_old,
    clocks_differ,
    commits_not_synchronous,
    commits_not_durable,
    database_stands_alone,
)
