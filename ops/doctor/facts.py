"""What was observed of a deployment, as plain values. Readers gather it; rules judge it.

None stands for what nobody could say, and a rule says nothing about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.settings import Settings


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, or a topic's subscription, of Service Bus.

    Args:
        name: how it is called in findings.
        lock_seconds: how long a delivery holds a message.
        max_deliveries: before Service Bus dead-letters by itself.
        dead_letters_expired: what happens to a message whose time to live is over.
        detects_duplicates: whether a message id that comes again is dropped.
        requires_session: whether only receivers of sessions get messages.
    """

    name: str
    lock_seconds: float
    max_deliveries: int
    dead_letters_expired: bool
    detects_duplicates: bool | None
    requires_session: bool


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of Pub/Sub.

    Args:
        name: how it is called in findings.
        ack_deadline_seconds: how long a delivery may take.
        pushes: to an endpoint; else it is pulled from.
        push_has_token: whether what is pushed proves who pushes it.
        delivers_exactly_once: as Pub/Sub understands it.
        expires_after_seconds: of idleness; infinite for never.
        backoff_seconds: shortest and longest of the retry policy; None without one.
        max_deliveries: of the dead-letter policy; None without one.
        service_agent_may_forward: whether Pub/Sub itself has its two grants.
        retention_seconds: how long an event waits at most.
    """

    name: str
    ack_deadline_seconds: float
    pushes: bool
    push_has_token: bool
    delivers_exactly_once: bool
    expires_after_seconds: float
    backoff_seconds: tuple[float, float] | None
    max_deliveries: int | None
    service_agent_may_forward: bool | None
    retention_seconds: float | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much happens at once.

    Args:
        what: runs: a function, or a worker.
        instances: of it, at most; None when nobody says.
        concurrency: deliveries that one instance is given at once.
        threads: that one instance handles them with.
        pool_size: database connections of one instance.
        other_connections: of timers and the like.
        other_callers: of Stripe among them, each with the same request rate.
        database_connections: what the database allows.
    """

    what: str
    instances: int | None
    concurrency: int
    threads: int
    pool_size: int
    other_connections: int = 0
    other_callers: int = 0
    database_connections: int | None = None


@dataclass(frozen=True, slots=True)
class Database:
    """The database, as its own settings tell.

    Args:
        problem: why it could not be read; None when it could.
        schema_version: of its tables.
        needed_version: of this code.
        clock_skew_seconds: its clock less the one here; None where nobody could read it.
        synchronous_commit: of the role that charges.
        durability_off: its settings that let commits get lost.
    """

    problem: str | None = None
    schema_version: int | None = None
    needed_version: int = 0
    clock_skew_seconds: float | None = None
    synchronous_commit: str | None = None
    durability_off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StripeAccount:
    """What Stripe answers to the key.

    Args:
        key_refused: it knows no such key.
        account_id: whose key it is; None when the key may not read that.
        livemode: of the answers; None when there was none.
        forbidden: the reads that the key may not do.
        stored_account_id: which account the records belong to.
        stored_livemode: in which mode.
    """

    key_refused: bool = False
    account_id: str | None = None
    livemode: bool | None = None
    forbidden: tuple[str, ...] = ()
    stored_account_id: str | None = None
    stored_livemode: bool | None = None


@dataclass(frozen=True, slots=True)
class RunKey:
    """The vault key of a run that is in use.

    Args:
        billing_period: the run's.
        hours_left: until it expires; None where there is none.
        reason_to_replace: why the timer would replace it now; None while it would not.
        opens: whether the encryption key here opens it; None where there is none.
    """

    billing_period: str
    hours_left: float | None
    reason_to_replace: str | None
    opens: bool | None


@dataclass(frozen=True, slots=True)
class Facts:
    """One deployment, or one set of templates.

    Args:
        place: where it was read, for people.
        settings: as shared/settings.py reads them.
        settings_problems: what it refuses about them.
        host: host.json.
        queue: of Service Bus.
        subscription: of Pub/Sub, with events.
        dead_letter_subscriptions: of its dead-letter topic; None when nobody could say.
        event_subscriptions: all subscriptions of the topic with events.
        open_functions: HTTP functions that anybody may call.
        capacities: of each part that charges.
        highly_available: whether the database survives its machine; None when it cannot be seen.
        database: when it was asked.
        stripe: when it was asked.
        run_keys: of the runs that are in use, behind a spend-cap proxy.
        plain_secrets: settings whose secret value is written in a template.
        numbers: what places say, by place and name, for the table of numbers.
    """

    place: str
    settings: Settings | None = None
    settings_problems: tuple[str, ...] = ()
    host: Mapping[str, object] | None = None
    queue: Queue | None = None
    subscription: Subscription | None = None
    dead_letter_subscriptions: tuple[Subscription, ...] | None = None
    event_subscriptions: tuple[str, ...] = ()
    open_functions: tuple[str, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    highly_available: bool | None = None
    database: Database | None = None
    stripe: StripeAccount | None = None
    run_keys: tuple[RunKey, ...] = ()
    plain_secrets: tuple[str, ...] = ()
    numbers: Mapping[tuple[str, str], float] = field(default_factory=dict)
