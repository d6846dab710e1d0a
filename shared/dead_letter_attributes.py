"""The attributes by which a Pub/Sub message says that it is a dead letter, or was one.

Pub/Sub has no dead-letter reason: what a consumer of ours dead-letters, it publishes to another
topic with the first four. Sending it again takes them off and adds the last.
"""

PREFIX = "chargeonce_"

REASON = "chargeonce_reason"
DESCRIPTION = "chargeonce_description"
MESSAGE_ID = "chargeonce_message_id"
DELIVERY_COUNT = "chargeonce_delivery_count"

ORIGINAL_MESSAGE_ID = "chargeonce_original_message_id"
"""The id under which a message was first sent, on a copy that was sent again under another."""

# Pub/Sub's own dead-lettering writes names that begin like this.
FORWARDED_PREFIX = "CloudPubSubDeadLetterSource"
FORWARDED_DELIVERY_COUNT = "CloudPubSubDeadLetterSourceDeliveryCount"
# It keeps these for itself: hands them out, and refuses to take them.
RESERVED_PREFIX = "goog"
