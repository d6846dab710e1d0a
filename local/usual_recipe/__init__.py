"""The usual ways to charge through a queue, to be seen failing beside this project's own.

`UnsafeConsumer` is what such articles warn of, `SafeConsumer` what they recommend instead. Both use
Stripe's SDK and PostgreSQL as they stand, and know of a broker only what `Message` says; the demo
and the acceptance tests drive them. Nothing here is for charging anybody.
"""

from local.usual_recipe.consumers import (
    Key,
    SafeConsumer,
    UnsafeConsumer,
    business_key,
    connect_stripe,
    key_from_message_id,
    no_key,
)
from local.usual_recipe.message import Message
from local.usual_recipe.records import BillingRecords

__all__ = [
    "BillingRecords",
    "Key",
    "Message",
    "SafeConsumer",
    "UnsafeConsumer",
    "business_key",
    "connect_stripe",
    "key_from_message_id",
    "no_key",
]
