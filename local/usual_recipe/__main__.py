"""A worker of the usual kind: `python -m local.usual_recipe unsafe`, or `safe`.

It pulls from PUBSUB_SUBSCRIPTION (a full name) on the emulator in PUBSUB_EMULATOR_HOST, charges
through STRIPE_API_BASE with STRIPE_API_KEY and keeps records in DATABASE_URL, until it is killed.
"""

import argparse
import os
import threading
from collections.abc import Callable
from typing import Final

from google.cloud.pubsub_v1 import SubscriberClient
from google.cloud.pubsub_v1.types import FlowControl

from local.usual_recipe import (
    BillingRecords,
    Message,
    SafeConsumer,
    UnsafeConsumer,
    connect_stripe,
    key_from_message_id,
    no_key,
)
from local.usual_recipe.pubsub import callback_for

NAMESPACE: Final = "pubsub-billing"
# Real money is not for recipes.
TEST_KEYS: Final = ("sk_test_", "rk_test_")


def main() -> None:
    """Pull until the process ends."""
    arguments = _parse()
    if not os.environ["STRIPE_API_KEY"].startswith(TEST_KEYS):
        raise SystemExit("STRIPE_API_KEY must be a key of Stripe's test mode")
    # Nobody looks at what this returns, nor at a callback that raises.
    SubscriberClient().subscribe(
        os.environ["PUBSUB_SUBSCRIPTION"],
        callback_for(_handler(arguments)),
        flow_control=FlowControl(max_messages=arguments.max_messages),
    )
    threading.Event().wait()


def _handler(arguments: argparse.Namespace) -> Callable[[Message], None]:
    client = connect_stripe(
        os.environ["STRIPE_API_KEY"],
        os.environ["STRIPE_API_BASE"],
        arguments.read_timeout_seconds,
    )
    if arguments.kind == "safe":
        return SafeConsumer(client, BillingRecords(os.environ["DATABASE_URL"]), NAMESPACE).handle
    key = key_from_message_id if arguments.key_from_message_id else no_key
    return UnsafeConsumer(client, key).handle


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m local.usual_recipe", description=__doc__)
    parser.add_argument("kind", choices=["unsafe", "safe"])
    parser.add_argument("--key-from-message-id", action="store_true")
    parser.add_argument("--max-messages", type=int, default=10, metavar="N")
    parser.add_argument("--read-timeout-seconds", type=float, default=30.0, metavar="SECONDS")
    return parser.parse_args()


if __name__ == "__main__":
    main()
