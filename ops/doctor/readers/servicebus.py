"""Service Bus, asked through its management API, which takes the right to manage."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from ops.dead_letters.duplicate_detection import make_administration_client
from ops.doctor.examination import Unread
from ops.doctor.facts import Facts, Queue
from ops.doctor.readers.durations import seconds_of
from shared.settings import ServiceBusSettings

EMULATOR = "UseDevelopmentEmulator=true"


def add_queue(facts: Facts) -> tuple[Facts, tuple[Unread, ...]]:
    """The same facts, with the queue or subscription that those settings name."""
    assert facts.settings is not None, "settings are read first"
    servicebus = facts.settings.servicebus
    if not servicebus.host or not (servicebus.queue or servicebus.subscription):
        return facts, ()
    name = servicebus.queue or f"{servicebus.topic}/{servicebus.subscription}"
    if EMULATOR in (servicebus.connection_string or ""):
        why = "the emulator has no management API"
        return facts, (Unread(f"Service Bus, {name}", why, matters=False),)
    try:
        return replace(facts, queue=_read(servicebus, name)), ()
    except Exception as error:  # noqa: BLE001 - its text stays out: it may quote the key
        why = f"{type(error).__name__}; it takes the role Azure Service Bus Data Owner"
        return facts, (Unread(f"Service Bus, {name}", why),)


def _read(servicebus: ServiceBusSettings, name: str) -> Queue:
    with make_administration_client(servicebus) as client:
        if servicebus.queue is not None:
            entity = holder = client.get_queue(servicebus.queue)
        else:
            entity = client.get_subscription(servicebus.topic, servicebus.subscription)
            holder = client.get_topic(servicebus.topic)
    return Queue(
        name=name,
        lock_seconds=_seconds(entity.lock_duration),
        max_deliveries=entity.max_delivery_count,
        dead_letters_expired=entity.dead_lettering_on_message_expiration is True,
        detects_duplicates=holder.requires_duplicate_detection,
        requires_session=entity.requires_session is True,
    )


def _seconds(duration: Any) -> float:
    """The SDK gives what the service wrote, or a span of Python's."""
    return duration.total_seconds() if isinstance(duration, timedelta) else seconds_of(duration)
