"""The settings of a process, or of a template, as shared/settings.py reads them."""

from __future__ import annotations

from collections.abc import Mapping

from ops.doctor.facts import Capacity, Facts
from ops.doctor.numbers import SETTINGS
from shared.settings import Settings, examine_settings


def read_environment(
    place: str, environment: Mapping[str, str] | None = None, instances: int | None = None
) -> Facts:
    """What the settings alone tell.

    Args:
        place: for people.
        environment: in place of the process's own.
        instances: how many there may be, when somebody says so.
    """
    settings, problems = examine_settings(environment)
    return Facts(
        place=place,
        settings=settings,
        settings_problems=tuple(problems),
        capacities=(_capacity(settings, instances),),
    )


def _capacity(settings: Settings, instances: int | None) -> Capacity:
    """Of that process: the settings of one cloud's part say which it is."""
    what, threads = "this process", settings.worker_concurrency
    if settings.servicebus.host:
        what, threads = "the function app", settings.servicebus.threads
    elif settings.pubsub.subscription:
        what = "the pull worker"
    elif settings.pubsub.push.service_account:
        what, threads = "the push function", settings.function.threads
    pool_size = settings.database_pool_size or threads
    return Capacity(what, instances, threads, threads, pool_size)


def read_defaults() -> Facts:
    """The numbers that settings have by themselves."""
    settings, _ = examine_settings({})
    numbers = {
        "STRIPE_CONNECT_TIMEOUT_SECONDS": settings.stripe.connect_timeout_seconds,
        "STRIPE_READ_TIMEOUT_SECONDS": settings.stripe.read_timeout_seconds,
        "CHARGE_BUDGET_SECONDS": settings.rules.budget_seconds,
        "CLAIM_LEASE_SECONDS": settings.rules.lease_seconds,
        "WORKER_CONCURRENCY": float(settings.worker_concurrency),
    }
    return Facts(
        place="the defaults of the settings",
        numbers={(SETTINGS, name): value for name, value in numbers.items()},
    )
