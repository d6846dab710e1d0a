"""Whether a queue drops messages whose id it knows, as Service Bus' management API tells.

A queue with duplicate detection accepts such a message and drops it without a word. A dead letter
that is sent again under its own id, and then removed, would be gone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared.settings import ServiceBusSettings

CALL_SECONDS = 10.0
# Service Bus allows no longer one.
LONGEST_WINDOW = timedelta(days=7)


def swallow_window(servicebus: ServiceBusSettings) -> timedelta | None:
    """How long the queue or topic that is billed from remembers message ids.

    Returns:
        The window; zero when it detects no duplicates; None when nobody could say, because the
        rights to manage are missing or the management API is away.
    """
    try:
        with make_administration_client(servicebus) as client:
            if servicebus.queue is not None:
                entity = client.get_queue(servicebus.queue)
            else:
                entity = client.get_topic(servicebus.topic)
    except Exception:  # noqa: BLE001 (whatever stood in the way, it is not known)
        return None
    if not entity.requires_duplicate_detection:
        return timedelta()
    window = entity.duplicate_detection_history_time_window
    return window if isinstance(window, timedelta) else LONGEST_WINDOW


def make_administration_client(servicebus: ServiceBusSettings) -> Any:
    """A client of the management API that gives up soon; it takes the right to manage.

    Args:
        servicebus: checked.
    """
    import logging

    from azure.servicebus.management import ServiceBusAdministrationClient

    logging.getLogger("azure").addHandler(logging.NullHandler())
    options: dict[str, Any] = {
        "retry_total": 0,
        "connection_timeout": CALL_SECONDS,
        "read_timeout": CALL_SECONDS,
    }
    if servicebus.connection_string is not None:
        return ServiceBusAdministrationClient.from_connection_string(
            servicebus.connection_string, **options
        )
    assert servicebus.namespace is not None, "the settings were checked"
    from azure.identity import DefaultAzureCredential

    return ServiceBusAdministrationClient(servicebus.namespace, DefaultAzureCredential(), **options)
