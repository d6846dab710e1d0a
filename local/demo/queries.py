"""What the demo reads from the database beside the reports that operators have."""

from typing import Final

SETTLED_MESSAGES: Final = """
SELECT DISTINCT transport, message_id
FROM chargeonce.attempts
WHERE transport <> 'reconcile' AND decision = ANY(%s)
"""

# Each delivery of a valid event notes its claim, and what came of it in a second line.
COUNT_DELIVERIES: Final = """
SELECT
    transport,
    count(*),
    count(*) FILTER (WHERE delivery_count > 1),
    count(*) FILTER (WHERE decision = 'busy'),
    count(*) FILTER (WHERE decision LIKE 'already\\_%%')
FROM chargeonce.attempts
WHERE transport <> 'reconcile'
  AND (decision = ANY(%s) OR decision LIKE 'already\\_%%')
GROUP BY transport
"""

RECORDS: Final = """
SELECT customer_id, state, amount_cents, currency, payment_id, doubts
FROM chargeonce.records
WHERE billing_period = %s
"""

PARKED_BODIES: Final = """
SELECT DISTINCT body
FROM chargeonce.parked_events
WHERE transport = ANY(%s)
ORDER BY body
"""

PARKED_EVENTS: Final = """
SELECT transport, message_id, reason, customer_id
FROM chargeonce.parked_events
"""

# What reconcile still has to end: records, and messages that it delivers in the broker's place.
COUNT_UNFINISHED: Final = """
SELECT
    (
        SELECT count(*) FROM chargeonce.records
        WHERE state IN ('in_progress', 'in_doubt', 'processing')
    )
    + (SELECT count(*) FROM chargeonce.kept_messages)
"""

COUNT_HELD: Final = """
SELECT count(*)
FROM chargeonce.records AS r
JOIN chargeonce.attempts AS c USING (customer_id, billing_period, fence)
WHERE r.state IN ('in_progress', 'in_doubt') AND r.lease_until > clock_timestamp()
  AND c.decision = 'claimed' AND c.transport = ANY(%s)
"""

# Claims of which no second line tells what came of them: their holder was killed.
COUNT_CUT_SHORT: Final = """
SELECT count(*)
FROM chargeonce.attempts AS c
WHERE c.decision = 'claimed'
  AND NOT EXISTS (
    SELECT FROM chargeonce.attempts AS e
    WHERE e.customer_id = c.customer_id
      AND e.billing_period = c.billing_period
      AND e.fence = c.fence
      AND e.decision <> ALL(%s)
      AND e.decision NOT LIKE 'already\\_%%'
  )
"""

# Reconcile rests between two looks at something, for minutes and longer; nobody watches that long.
END_PAUSES: Final = """
WITH messages AS (
    UPDATE chargeonce.kept_messages SET due_at = clock_timestamp()
)
UPDATE chargeonce.records
SET due_at = clock_timestamp()
WHERE due_at > clock_timestamp() AND state IN ('in_progress', 'in_doubt')
"""
