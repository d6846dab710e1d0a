"""The statements of the PostgreSQL store. What they call is in `sql/migrations`."""

IDENTIFY = "SELECT account_id, livemode FROM chargeonce.identify(%s, %s)"

CLAIM = "SELECT verdict, database_time, stored_row FROM chargeonce.claim(%s, %s, %s)"

RESUME = "SELECT verdict, database_time, stored_row FROM chargeonce.resume(%s, %s, %s, %s, %s)"

STORE_PAYMENT = "SELECT chargeonce.store_payment(%s, %s, %s, %s)"

STORE_VERDICT = "SELECT chargeonce.store_verdict(%s, %s, %s, %s, %s, %s)"

FINISH = """
SELECT written, second_payment, run_closed, stored_row
FROM chargeonce.finish(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

RELEASE = "SELECT chargeonce.release(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"

PARK = "SELECT chargeonce.park_invalid(%s, %s, %s, %s)"

DUE = """
SELECT customer_id, billing_period
FROM chargeonce.records
WHERE state IN ('in_progress', 'in_doubt', 'processing')
  AND due_at <= clock_timestamp()
  AND lease_until <= clock_timestamp()
ORDER BY due_at, customer_id
LIMIT %s
"""

OPEN_RUN = "SELECT chargeonce.open_run(%s, %s, %s, %s)"

_RUN_COLUMNS = """
billing_period, currency, expected_cents, cap_cents, held_cents, charged_cents, is_open,
closed_reason, opened_at
"""

GET_RUN = f"SELECT {_RUN_COLUMNS} FROM chargeonce.runs WHERE billing_period = %s"

CLOSE_RUN = """
UPDATE chargeonce.runs
SET is_open = false, closed_reason = %s
WHERE billing_period = %s AND is_open
"""

RAISE_CAP = """
UPDATE chargeonce.runs
SET cap_cents = %(cap_cents)s,
    is_open = is_open OR closed_reason = 'over_cap',
    closed_reason = nullif(closed_reason, 'over_cap')
WHERE billing_period = %(billing_period)s AND cap_cents < %(cap_cents)s
"""

GET_RECORD = """
SELECT to_jsonb(r) FROM chargeonce.records AS r
WHERE r.customer_id = %s AND r.billing_period = %s
"""

COUNT_BY_STATE = """
SELECT state, count(*), sum(amount_cents)
FROM chargeonce.records
WHERE billing_period = %s
GROUP BY state
"""

COUNT_PARKED = "SELECT count(*) FROM chargeonce.parked_events WHERE billing_period = %s"

OLDEST_UNFINISHED = """
SELECT to_jsonb(r) FROM chargeonce.records AS r
WHERE r.billing_period = %s AND r.state IN ('in_progress', 'in_doubt', 'processing')
ORDER BY r.attempt_started_at
LIMIT 1
"""

DATABASE_TIME = "SELECT clock_timestamp()"

ATTEMPTS = """
SELECT noted_at, attempt, fence, transport, message_id, delivery_count, decision, code, request_id
FROM (
    SELECT * FROM chargeonce.attempts
    WHERE customer_id = %s AND billing_period = %s
    ORDER BY id DESC
    LIMIT %s
) AS newest
ORDER BY id
"""
