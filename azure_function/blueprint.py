"""The functions that Azure finds: `bill`, `mint_vault_key` and `reconcile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import azure.functions as func
import azurefunctions.extensions.bindings.servicebus as sb

from azure_function.billing import Billing

# The prefix of the app settings `ServiceBus` and `ServiceBus__fullyQualifiedNamespace`.
CONNECTION = "ServiceBus"

USUAL_MINT_SCHEDULE = "0 0 3 1 * *"
USUAL_RECONCILE_SCHEDULE = "0 */5 * * * *"

Decorator: TypeAlias = Callable[..., Any]


def make_blueprint(billing: Billing) -> func.Blueprint:
    """The functions, to be registered with a function app.

    Args:
        billing: what they share.
    """
    blueprint = func.Blueprint()  # type: ignore[no-untyped-call]
    schedules = billing.settings.servicebus

    @blueprint.function_name("bill")
    @_message_trigger(blueprint, billing)
    def bill(message: sb.ServiceBusReceivedMessage, actions: sb.ServiceBusMessageActions) -> None:
        billing.bill(message, actions)

    @blueprint.function_name("mint_vault_key")
    @timer_trigger(blueprint, "%MINT_SCHEDULE%" if schedules.mint_schedule else USUAL_MINT_SCHEDULE)
    def mint_vault_key(timer: func.TimerRequest) -> None:  # noqa: ARG001 (the runtime's)
        billing.mint_vault_key()

    @blueprint.function_name("reconcile")
    @timer_trigger(blueprint, reconcile_schedule(schedules.reconcile_schedule))
    def reconcile(timer: func.TimerRequest) -> None:  # noqa: ARG001 (the runtime's)
        billing.reconcile()

    return blueprint


def reconcile_schedule(schedule: str | None) -> str:
    """The schedule of the timer `reconcile`, in the form of the binding.

    Args:
        schedule: what the settings say; None for the usual one.
    """
    return "%RECONCILE_SCHEDULE%" if schedule else USUAL_RECONCILE_SCHEDULE


def _message_trigger(blueprint: func.Blueprint, billing: Billing) -> Decorator:
    """A trigger whose message only we settle; the host fills in the names between per cents."""
    if billing.settings.servicebus.queue is not None:
        return blueprint.service_bus_queue_trigger(
            arg_name="message",
            connection=CONNECTION,
            queue_name="%BILLING_QUEUE%",
            auto_complete_messages=False,
        )
    return blueprint.service_bus_topic_trigger(
        arg_name="message",
        connection=CONNECTION,
        topic_name="%BILLING_TOPIC%",
        subscription_name="%BILLING_SUBSCRIPTION%",
        auto_complete_messages=False,
    )


def timer_trigger(blueprint: func.Blueprint, schedule: str) -> Decorator:
    """A timer in place of the decorator of the SDK, with what is right for each of ours."""
    # Run at every start, it would run at every scale-out.
    return blueprint.timer_trigger(
        arg_name="timer", schedule=schedule, run_on_startup=False, use_monitor=True
    )
