"""The statements of the PostgreSQL store. The functions that they call are in `sql/migrations`."""

IDENTIFY = "SELECT account_id, livemode FROM chargeonce.identify(%s, %s)"

_CLAIMED = """
SELECT
    claimed.verdict, claimed.database_time, claimed.stored_row, key.key_id, key.sealed_key,
    key.is_whole
FROM {claim} AS claimed
CROSS JOIN LATERAL chargeonce.claimed_key(claimed.verdict, %(billing_period)s) AS key
"""

CLAIM = _CLAIMED.format(
    claim="""chargeonce.claim(
    %(customer_id)s, %(billing_period)s, %(key)s, %(stripe_customer_id)s, %(amount_cents)s,
    %(currency)s, %(attempt)s, %(payment_method_id)s, %(flow)s, %(create_parameters)s,
    %(require_run)s, %(lease_seconds)s, %(token)s, %(note)s, %(body)s
)"""
)

RESUME = _CLAIMED.format(
    claim="""chargeonce.resume(
    %(customer_id)s, %(billing_period)s, %(lease_seconds)s, %(token)s, %(note)s
)"""
)

STORE_PAYMENT = "SELECT chargeonce.store_payment(%s, %s, %s, %s)"

STORE_VERDICT = "SELECT chargeonce.store_verdict(%s, %s, %s, %s, %s, %s)"

FINISH = """
SELECT written, second_payment, run_closed, stored_row
FROM chargeonce.finish(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

RELEASE = "SELECT chargeonce.release(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"

PARK = "SELECT chargeonce.park_invalid(%s, %s, %s, %s)"

KEEP = "SELECT chargeonce.keep(%s, %s, %s, %s, %s)"

TAKE_DUE = "SELECT stored_row, age_seconds FROM chargeonce.take_due(%s)"

TAKE_KEPT = "SELECT kept_row, kept_body, age_seconds FROM chargeonce.take_kept(%s)"

DROP_KEPT = "SELECT chargeonce.drop_kept(%s)"

# now() and not clock_timestamp(), which no index can be searched by.
DUE = """
SELECT customer_id, billing_period
FROM (
    SELECT record.customer_id, record.billing_period, record.due_at
    FROM chargeonce.records AS record
    WHERE record.state IN ('in_progress', 'in_doubt', 'processing')
      AND record.due_at <= now()
      AND record.lease_until <= now()
    UNION ALL
    SELECT kept.customer_id, kept.billing_period, kept.due_at
    FROM chargeonce.kept_messages AS kept
    WHERE kept.due_at <= now()
) AS due
ORDER BY due_at, customer_id, billing_period
LIMIT %s
"""

OPEN_RUN = "SELECT opened, stored_run FROM chargeonce.open_run(%s, %s, %s, %s)"

GET_RUN = "SELECT to_jsonb(run) FROM chargeonce.runs AS run WHERE run.billing_period = %s"

CLOSE_RUN = """
UPDATE chargeonce.runs AS run
SET is_open = false, closed_reason = %(reason)s
WHERE run.billing_period = %(billing_period)s AND run.is_open
RETURNING to_jsonb(run)
"""

TAKE_RUNS_NEAR_CAP = """
UPDATE chargeonce.runs AS run
SET near_cap_told_cents = run.cap_cents
WHERE run.is_open
  AND (run.held_cents + run.charged_cents) * 100::numeric >= run.cap_cents * %(percent)s::numeric
  AND run.near_cap_told_cents IS DISTINCT FROM run.cap_cents
RETURNING to_jsonb(run)
"""

REOPEN_RUN = """
UPDATE chargeonce.runs AS run
SET is_open = true, closed_reason = NULL
WHERE run.billing_period = %(billing_period)s
  AND NOT run.is_open
  AND run.closed_reason IS DISTINCT FROM 'over_cap'
RETURNING to_jsonb(run)
"""

RAISE_CAP = """
UPDATE chargeonce.runs AS run
SET cap_cents = %(cap_cents)s,
    is_open = run.is_open OR run.closed_reason = 'over_cap',
    closed_reason = nullif(run.closed_reason, 'over_cap')
WHERE run.billing_period = %(billing_period)s AND run.cap_cents < %(cap_cents)s
RETURNING to_jsonb(run)
"""

GET_RECORD = """
SELECT to_jsonb(record) FROM chargeonce.records AS record
WHERE record.customer_id = %s AND record.billing_period = %s
"""

# One statement, so that run and counts are of one moment.
STATUS = """
SELECT
    (
        SELECT to_jsonb(run) FROM chargeonce.runs AS run
        WHERE run.billing_period = %(billing_period)s
    ),
    (
        SELECT jsonb_agg(counted) FROM (
            SELECT record.state, count(*) AS records, sum(record.amount_cents) AS cents
            FROM chargeonce.records AS record
            WHERE record.billing_period = %(billing_period)s
            GROUP BY record.state
        ) AS counted
    ),
    (
        SELECT count(*) FROM chargeonce.parked_events AS parked
        WHERE parked.billing_period = %(billing_period)s
    ),
    (
        SELECT count(*) FROM chargeonce.kept_messages AS kept
        WHERE kept.billing_period = %(billing_period)s
    ),
    (
        SELECT to_jsonb(record) FROM chargeonce.records AS record
        WHERE record.billing_period = %(billing_period)s
          AND record.state IN ('in_progress', 'in_doubt', 'processing')
        ORDER BY record.attempt_started_at, record.customer_id
        LIMIT 1
    ),
    clock_timestamp()
"""

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

ADOPT = "SELECT adoption, run_closed, stored_row FROM chargeonce.adopt(%s, %s, %s, %s)"

BEGIN_REBUILD = """
SELECT id, history, noticed_at, since, list, cursor, database_time
FROM chargeonce.begin_rebuild(%s, %s)
"""

NOTE_REBUILD_PLACE = "SELECT chargeonce.note_rebuild_place(%s, %s, %s, %s)"

FINISH_REBUILD = "SELECT chargeonce.finish_rebuild(%s, %s)"

# At random, so that those which stay do not keep the others from their turn.
DOUBTED_CREATES = """
SELECT customer_id, billing_period, least(created_at, attempt_started_at), clock_timestamp()
FROM chargeonce.records
WHERE create_in_doubt
  AND updated_at <= clock_timestamp() - make_interval(secs => %s)
  AND NOT chargeonce.is_suspended()
ORDER BY random()
LIMIT %s
"""

CLEAR_CREATE_DOUBT = """
UPDATE chargeonce.records AS record
SET create_in_doubt = false
WHERE record.customer_id = %s
  AND record.billing_period = %s
  AND record.updated_at = %s
RETURNING record.customer_id
"""

EXAMINE = """
SELECT to_jsonb(record), clock_timestamp() FROM chargeonce.records AS record
WHERE record.customer_id = %s AND record.billing_period = %s
"""

CLOSE_RECORD = "SELECT closed, stored_row FROM chargeonce.close_record(%s, %s, %s, %s)"

RECORD_PAYMENT = """
SELECT recording, run_closed, stored_row
FROM chargeonce.record_payment(%s, %s, %s, %s, %s, %s)
"""

FAILED_RECORDS = "SELECT * FROM chargeonce.failed_records(%s, %s, %s::text[], %s, %s)"

DELETE_OLD = "SELECT attempts, parked_events FROM chargeonce.delete_old(%s, %s)"

PERIODS_OF = "SELECT * FROM chargeonce.periods_of(%s)"

ERASE = "SELECT chargeonce.erase(%s, %s, %s, %s)"

ERASE_INVALID = "SELECT chargeonce.erase_invalid(%s, %s)"

KNOWN_IDENTITY = "SELECT account_id, livemode FROM chargeonce.cluster"

DATABASE_TIME = "SELECT clock_timestamp()"

PERIOD_BEGINNING = """
SELECT least(
    (SELECT min(run.opened_at) FROM chargeonce.runs AS run WHERE run.billing_period = %(period)s),
    (
        SELECT min(least(record.created_at, record.attempt_started_at))
        FROM chargeonce.records AS record
        WHERE record.billing_period = %(period)s
    )
)
"""

_RECORD_LINE = """
    record.customer_id, record.billing_period, record.stripe_customer_id, record.amount_cents,
    record.currency, record.state, record.payment_id, record.held_cents,
    record.lease_until > clock_timestamp() AS is_leased, record.attempt_started_at
"""

RECORD_LINE = f"""
SELECT {_RECORD_LINE}
FROM chargeonce.records AS record
WHERE record.customer_id = %s AND record.billing_period = %s
"""

# The last line that was looked at comes in any case: the next batch begins after it.
_BATCH = """
SELECT *, attempt_started_at >= %(since)s AS is_asked_for
FROM (
    SELECT
        *,
        row_number() OVER (ORDER BY billing_period, customer_id) = count(*) OVER () AS is_last,
        count(*) OVER () AS seen
    FROM (
        SELECT {line}
        FROM chargeonce.records AS record
        WHERE {condition}
        ORDER BY record.billing_period, record.customer_id
        LIMIT %(limit)s
    ) AS batch
) AS numbered
WHERE attempt_started_at >= %(since)s OR is_last
ORDER BY billing_period, customer_id
"""

BATCH_OF_PERIOD = _BATCH.format(
    line=_RECORD_LINE,
    condition="record.billing_period = %(period)s AND record.customer_id > %(after_customer)s",
)

BATCH_OF_ALL = _BATCH.format(
    line=_RECORD_LINE,
    condition="""
        (record.billing_period, record.customer_id) > (%(after_period)s, %(after_customer)s)
    """,
)

NAMED_PAYMENTS = """
SELECT DISTINCT record.payment_id FROM chargeonce.records AS record
WHERE record.payment_id = ANY(%s)
"""

# One statement, so that the run and its records are of one moment.
RUN_SUMS = """
SELECT run.billing_period, run.currency, run.held_cents, run.charged_cents, sums.held, sums.charged
FROM chargeonce.runs AS run
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(record.held_cents), 0)::bigint AS held,
        coalesce(sum(record.amount_cents) FILTER (WHERE record.state = 'charged'), 0)::bigint
            AS charged
    FROM chargeonce.records AS record
    WHERE record.billing_period = run.billing_period AND record.currency = run.currency
) AS sums
WHERE run.billing_period = %s
"""

# Each id by the primary key, and everything of one moment.
PROSPECTS = """
SELECT asked.customer_id, asked.billing_period, to_jsonb(record), to_jsonb(run),
    record.due_at IS NULL, present.is_suspended, present.database_time
FROM unnest(%s::text[], %s::text[]) AS asked (customer_id, billing_period)
CROSS JOIN (
    SELECT chargeonce.is_suspended() AS is_suspended, clock_timestamp() AS database_time
) AS present
LEFT JOIN chargeonce.records AS record
    ON record.billing_period = asked.billing_period AND record.customer_id = asked.customer_id
LEFT JOIN chargeonce.runs AS run ON run.billing_period = asked.billing_period
"""

PARKED_MESSAGES = """
SELECT id, reason, description, body, transport, message_id, delivery_count, attributes,
    parked_at, resubmitted_at
FROM chargeonce.parked_events
WHERE id > %s
ORDER BY id
LIMIT %s
"""

RESUBMIT_PARKED = "SELECT chargeonce.resubmit_parked(%s, %s, %s, %s)"

DROP_PARKED = "DELETE FROM chargeonce.parked_events WHERE id = %s RETURNING id"
