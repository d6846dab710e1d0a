-- The records, the runs, and what happened to each delivery.
-- Every function below is one transaction of the store. Locks are always taken in the same order:
-- the record first, then its run.

CREATE TABLE chargeonce.cluster (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    account_id text,
    livemode boolean,
    system_identifier bigint NOT NULL,
    timeline text NOT NULL
);

COMMENT ON TABLE chargeonce.cluster IS
    'The Stripe account and mode served, and the database server''s history last known to be whole.';

CREATE TABLE chargeonce.runs (
    billing_period text PRIMARY KEY,
    currency text NOT NULL,
    expected_cents bigint NOT NULL CHECK (expected_cents > 0),
    cap_cents bigint NOT NULL CHECK (cap_cents > 0),
    held_cents bigint NOT NULL DEFAULT 0 CHECK (held_cents >= 0),
    charged_cents bigint NOT NULL DEFAULT 0 CHECK (charged_cents >= 0),
    is_open boolean NOT NULL DEFAULT true,
    closed_reason text,
    opened_at timestamptz NOT NULL DEFAULT now()
);

-- Every charge updates its run: room on the page keeps that off the index.
ALTER TABLE chargeonce.runs SET (fillfactor = 10);

CREATE TABLE chargeonce.records (
    customer_id text NOT NULL,
    billing_period text NOT NULL,
    key text NOT NULL,
    stripe_customer_id text NOT NULL,
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    currency text NOT NULL,
    attempt integer NOT NULL,
    state text NOT NULL CHECK (
        state IN (
            'in_progress', 'in_doubt', 'processing', 'charged',
            'declined', 'rejected', 'parked', 'canceled'
        )
    ),
    fence bigint NOT NULL,
    attempt_fence bigint NOT NULL,
    holder uuid,
    flow text NOT NULL CHECK (flow IN ('payment_intent', 'charge')),
    create_parameters jsonb NOT NULL,
    create_number integer NOT NULL DEFAULT 0,
    payment_method_id text,
    payment_id text,
    verdict_state text,
    verdict_code text,
    verdict_message text,
    code text,
    held_cents bigint NOT NULL CHECK (held_cents >= 0),
    doubts integer NOT NULL DEFAULT 0,
    create_in_doubt boolean NOT NULL DEFAULT false,
    attempt_started_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    due_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (customer_id, billing_period),
    CHECK (state <> 'charged' OR payment_id IS NOT NULL),
    CHECK (held_cents = 0 OR state IN ('in_progress', 'in_doubt', 'processing'))
);

ALTER TABLE chargeonce.records SET (fillfactor = 70);

CREATE INDEX records_by_period ON chargeonce.records (billing_period, state);

CREATE INDEX records_due ON chargeonce.records (due_at)
WHERE state IN ('in_progress', 'in_doubt', 'processing');

CREATE TABLE chargeonce.attempts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    customer_id text,
    billing_period text,
    attempt integer,
    fence bigint,
    transport text NOT NULL,
    message_id text NOT NULL,
    delivery_count integer,
    decision text NOT NULL,
    code text,
    request_id text
);

CREATE INDEX attempts_of_record ON chargeonce.attempts (customer_id, billing_period, id);

CREATE TABLE chargeonce.parked_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    parked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason text NOT NULL,
    description text NOT NULL,
    body bytea NOT NULL,
    transport text NOT NULL,
    message_id text NOT NULL,
    delivery_count integer,
    attributes jsonb NOT NULL,
    customer_id text,
    billing_period text
);

-- A message whose dead-lettering failed comes again; it is kept once.
CREATE UNIQUE INDEX parked_events_once
ON chargeonce.parked_events (transport, message_id, reason, md5(body));

CREATE INDEX parked_events_by_period ON chargeonce.parked_events (billing_period);

CREATE FUNCTION chargeonce.present_timeline() RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
$$;

INSERT INTO chargeonce.cluster (system_identifier, timeline)
SELECT system_identifier, chargeonce.present_timeline() FROM pg_control_system();

CREATE FUNCTION chargeonce.identify(p_account_id text, p_livemode boolean)
RETURNS TABLE (account_id text, livemode boolean)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE chargeonce.cluster AS c
    SET account_id = coalesce(c.account_id, p_account_id),
        livemode = coalesce(c.livemode, p_livemode)
    WHERE (c.account_id IS NULL AND p_account_id IS NOT NULL)
       OR (c.livemode IS NULL AND p_livemode IS NOT NULL);
    RETURN QUERY SELECT c.account_id, c.livemode FROM chargeonce.cluster AS c;
END
$$;

-- After a failover or a restore the server has another timeline or identity, and may have lost
-- the record of a charge.
CREATE FUNCTION chargeonce.is_suspended() RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT c.system_identifier <> s.system_identifier
        OR c.timeline <> chargeonce.present_timeline()
    FROM chargeonce.cluster AS c, pg_control_system() AS s
$$;

CREATE FUNCTION chargeonce.note(
    p_customer_id text, p_billing_period text, p_attempt integer, p_fence bigint, p_note jsonb
) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO chargeonce.attempts (
        customer_id, billing_period, attempt, fence, transport, message_id, delivery_count,
        decision, code, request_id
    )
    VALUES (
        p_customer_id, p_billing_period, p_attempt, p_fence, p_note ->> 'transport',
        p_note ->> 'message_id', (p_note ->> 'delivery_count')::integer,
        p_note ->> 'decision', p_note ->> 'code', p_note ->> 'request_id'
    )
$$;

CREATE FUNCTION chargeonce.park(
    p_customer_id text, p_billing_period text, p_reason text, p_description text, p_body bytea,
    p_note jsonb
) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO chargeonce.parked_events (
        reason, description, body, transport, message_id, delivery_count, attributes,
        customer_id, billing_period
    )
    VALUES (
        p_reason, p_description, p_body, p_note ->> 'transport', p_note ->> 'message_id',
        (p_note ->> 'delivery_count')::integer, p_note -> 'attributes',
        p_customer_id, p_billing_period
    )
    ON CONFLICT DO NOTHING
$$;

-- Holds an amount against the run's cap in one statement: the row lock is the check.
-- Returns NULL when it is held (or when a run is not required and there is none), else why not.
CREATE FUNCTION chargeonce.hold(
    p_billing_period text, p_currency text, p_amount_cents bigint, p_require_run boolean,
    OUT refusal text, OUT held_cents bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    run chargeonce.runs;
BEGIN
    held_cents := 0;
    UPDATE chargeonce.runs AS r
    SET held_cents = r.held_cents + p_amount_cents
    WHERE r.billing_period = p_billing_period
      AND r.currency = p_currency
      AND r.is_open
      AND r.held_cents + r.charged_cents + p_amount_cents <= r.cap_cents;
    IF FOUND THEN
        held_cents := p_amount_cents;
        RETURN;
    END IF;
    SELECT * INTO run FROM chargeonce.runs AS r WHERE r.billing_period = p_billing_period;
    refusal := CASE
        WHEN run.billing_period IS NULL AND p_require_run THEN 'run_missing'
        WHEN run.billing_period IS NULL THEN NULL
        WHEN run.currency <> p_currency THEN 'wrong_currency'
        WHEN NOT run.is_open THEN 'run_closed'
        ELSE 'cap_reached'
    END;
END
$$;

-- Decides a claim on an existing row that the caller has locked, and writes it.
CREATE FUNCTION chargeonce.claim_existing(r chargeonce.records, p_request jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    asked_attempt integer := (p_request ->> 'attempt')::integer;
    starts_attempt boolean;
    hold record;
BEGIN
    IF r.stripe_customer_id <> p_request ->> 'stripe_customer_id'
        OR r.amount_cents <> (p_request ->> 'amount_cents')::bigint
        OR r.currency <> p_request ->> 'currency'
    THEN
        RETURN 'conflict';
    END IF;
    starts_attempt := r.state IN ('declined', 'rejected') AND asked_attempt > r.attempt;
    IF starts_attempt OR r.state = 'parked' THEN
        hold := chargeonce.hold(
            r.billing_period, r.currency, r.amount_cents, (p_request ->> 'require_run')::boolean
        );
        IF hold.refusal IS NOT NULL THEN
            RETURN hold.refusal;
        END IF;
        UPDATE chargeonce.records AS t
        SET state = 'in_progress',
            fence = t.fence + 1,
            attempt_fence = t.fence + 1,
            holder = (p_request ->> 'token')::uuid,
            payment_id = NULL,
            verdict_state = NULL,
            verdict_code = NULL,
            verdict_message = NULL,
            code = NULL,
            held_cents = hold.held_cents,
            attempt_started_at = clock_timestamp(),
            lease_until = clock_timestamp() + make_interval(secs => (p_request ->> 'lease_seconds')::float8),
            due_at = clock_timestamp(),
            updated_at = clock_timestamp(),
            attempt = CASE WHEN starts_attempt THEN asked_attempt ELSE t.attempt END,
            flow = CASE WHEN starts_attempt THEN p_request ->> 'flow' ELSE t.flow END,
            create_parameters = CASE
                WHEN starts_attempt THEN p_request -> 'create_parameters' ELSE t.create_parameters
            END,
            payment_method_id = CASE
                WHEN starts_attempt THEN p_request ->> 'payment_method_id' ELSE t.payment_method_id
            END,
            -- A parked PaymentIntent is canceled, and its key would bring it back.
            create_number = CASE WHEN starts_attempt THEN 0 ELSE t.create_number + 1 END
        WHERE t.customer_id = r.customer_id AND t.billing_period = r.billing_period;
        RETURN 'claimed';
    END IF;
    IF r.state NOT IN ('in_progress', 'in_doubt') THEN
        RETURN 'settled';
    END IF;
    IF r.state = 'in_doubt' AND r.due_at IS NULL THEN
        RETURN 'conflict';
    END IF;
    RETURN chargeonce.take_over(
        r, (p_request ->> 'lease_seconds')::float8, (p_request ->> 'token')::uuid
    );
END
$$;

-- Takes over a row that the caller has locked, if its lease has run out.
CREATE FUNCTION chargeonce.take_over(
    r chargeonce.records, p_lease_seconds double precision, p_token uuid
) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF r.holder = p_token THEN
        RETURN 'claimed';
    END IF;
    IF r.lease_until > clock_timestamp() THEN
        RETURN 'busy';
    END IF;
    UPDATE chargeonce.records AS t
    SET fence = t.fence + 1,
        holder = p_token,
        lease_until = clock_timestamp() + make_interval(secs => p_lease_seconds),
        updated_at = clock_timestamp()
    WHERE t.customer_id = r.customer_id AND t.billing_period = r.billing_period;
    RETURN 'claimed';
END
$$;

-- Inserts a row and holds its amount; a refusal leaves no row.
CREATE FUNCTION chargeonce.claim_new(p_request jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    hold record;
BEGIN
    INSERT INTO chargeonce.records (
        customer_id, billing_period, key, stripe_customer_id, amount_cents, currency, attempt,
        state, fence, attempt_fence, holder, flow, create_parameters, payment_method_id,
        held_cents, attempt_started_at, lease_until, due_at
    )
    VALUES (
        p_request ->> 'customer_id', p_request ->> 'billing_period', p_request ->> 'key',
        p_request ->> 'stripe_customer_id', (p_request ->> 'amount_cents')::bigint,
        p_request ->> 'currency', (p_request ->> 'attempt')::integer, 'in_progress', 1, 1,
        (p_request ->> 'token')::uuid, p_request ->> 'flow', p_request -> 'create_parameters',
        p_request ->> 'payment_method_id', 0, clock_timestamp(),
        clock_timestamp() + make_interval(secs => (p_request ->> 'lease_seconds')::float8),
        clock_timestamp()
    )
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'exists';
    END IF;
    hold := chargeonce.hold(
        p_request ->> 'billing_period', p_request ->> 'currency',
        (p_request ->> 'amount_cents')::bigint, (p_request ->> 'require_run')::boolean
    );
    IF hold.refusal IS NOT NULL THEN
        DELETE FROM chargeonce.records AS t
        WHERE t.customer_id = p_request ->> 'customer_id'
          AND t.billing_period = p_request ->> 'billing_period';
        RETURN hold.refusal;
    END IF;
    UPDATE chargeonce.records AS t
    SET held_cents = hold.held_cents
    WHERE t.customer_id = p_request ->> 'customer_id'
      AND t.billing_period = p_request ->> 'billing_period'
      AND hold.held_cents > 0;
    RETURN 'claimed';
END
$$;

CREATE FUNCTION chargeonce.claim(p_request jsonb, p_note jsonb, p_body bytea)
RETURNS TABLE (verdict text, database_time timestamptz, stored_row jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    r chargeonce.records;
    wanted_customer text := p_request ->> 'customer_id';
    wanted_period text := p_request ->> 'billing_period';
    decision text;
    reason text;
BEGIN
    IF chargeonce.is_suspended() THEN
        RETURN QUERY SELECT 'suspended', clock_timestamp(), NULL::jsonb;
        RETURN;
    END IF;
    -- A finished row is only read: a duplicate must not write to it.
    SELECT * INTO r FROM chargeonce.records AS t
    WHERE t.customer_id = wanted_customer AND t.billing_period = wanted_period;
    IF FOUND AND r.state IN ('charged', 'canceled', 'processing') THEN
        verdict := chargeonce.claim_existing(r, p_request);
    ELSE
        FOR attempt_number IN 1..3 LOOP
            SELECT * INTO r FROM chargeonce.records AS t
            WHERE t.customer_id = wanted_customer AND t.billing_period = wanted_period
            FOR UPDATE;
            IF FOUND THEN
                verdict := chargeonce.claim_existing(r, p_request);
            ELSE
                verdict := chargeonce.claim_new(p_request);
            END IF;
            EXIT WHEN verdict <> 'exists';
        END LOOP;
        SELECT * INTO r FROM chargeonce.records AS t
        WHERE t.customer_id = wanted_customer AND t.billing_period = wanted_period;
    END IF;
    decision := CASE WHEN verdict = 'settled' THEN 'already_' || r.state ELSE verdict END;
    PERFORM chargeonce.note(
        wanted_customer, wanted_period, r.attempt, r.fence,
        p_note || jsonb_build_object('decision', decision)
    );
    reason := CASE decision
        WHEN 'conflict' THEN 'Conflict'
        WHEN 'run_closed' THEN 'RunClosed'
        WHEN 'wrong_currency' THEN 'WrongCurrency'
        WHEN 'cap_reached' THEN 'CapReached'
        WHEN 'already_rejected' THEN 'Rejected'
    END;
    IF reason IS NOT NULL THEN
        PERFORM chargeonce.park(wanted_customer, wanted_period, reason, decision, p_body, p_note);
    END IF;
    database_time := clock_timestamp();
    stored_row := CASE WHEN r.customer_id IS NULL THEN NULL ELSE to_jsonb(r) END;
    RETURN NEXT;
END
$$;

CREATE FUNCTION chargeonce.resume(
    p_customer_id text, p_billing_period text, p_lease_seconds double precision, p_token uuid,
    p_note jsonb
)
RETURNS TABLE (verdict text, database_time timestamptz, stored_row jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    r chargeonce.records;
BEGIN
    SELECT * INTO r FROM chargeonce.records AS t
    WHERE t.customer_id = p_customer_id AND t.billing_period = p_billing_period
    FOR UPDATE;
    verdict := CASE
        WHEN chargeonce.is_suspended() THEN 'suspended'
        WHEN r.state IN ('in_progress', 'in_doubt', 'processing')
            THEN chargeonce.take_over(r, p_lease_seconds, p_token)
        ELSE 'settled'
    END;
    IF verdict = 'claimed' THEN
        SELECT * INTO r FROM chargeonce.records AS t
        WHERE t.customer_id = p_customer_id AND t.billing_period = p_billing_period;
        PERFORM chargeonce.note(
            p_customer_id, p_billing_period, r.attempt, r.fence,
            p_note || jsonb_build_object('decision', verdict)
        );
    END IF;
    database_time := clock_timestamp();
    stored_row := CASE WHEN r.customer_id IS NULL THEN NULL ELSE to_jsonb(r) END;
    RETURN NEXT;
END
$$;

CREATE FUNCTION chargeonce.store_payment(
    p_customer_id text, p_billing_period text, p_fence bigint, p_payment_id text
) RETURNS text
LANGUAGE sql VOLATILE AS $$
    UPDATE chargeonce.records AS t
    SET payment_id = coalesce(t.payment_id, p_payment_id), updated_at = clock_timestamp()
    WHERE t.customer_id = p_customer_id
      AND t.billing_period = p_billing_period
      AND t.fence = p_fence
      AND t.state IN ('in_progress', 'in_doubt', 'processing')
    RETURNING t.payment_id
$$;

CREATE FUNCTION chargeonce.store_verdict(
    p_customer_id text, p_billing_period text, p_fence bigint, p_state text, p_code text,
    p_message text
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE chargeonce.records AS t
    SET verdict_state = p_state,
        verdict_code = p_code,
        verdict_message = p_message,
        updated_at = clock_timestamp()
    WHERE t.customer_id = p_customer_id
      AND t.billing_period = p_billing_period
      AND t.fence = p_fence
      AND t.state IN ('in_progress', 'in_doubt', 'processing');
    RETURN FOUND;
END
$$;

-- Writes an ending on a row that the caller has locked, and moves the money in the run.
-- Returns whether that passed the cap and closed the run: proof of money is recorded all the same.
CREATE FUNCTION chargeonce.end_record(
    r chargeonce.records, p_state text, p_payment_id text, p_code text
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    released_cents bigint := CASE WHEN p_state = 'processing' THEN 0 ELSE r.held_cents END;
    charged_now_cents bigint := CASE WHEN p_state = 'charged' THEN r.amount_cents ELSE 0 END;
    is_charged boolean := p_state = 'charged';
    run chargeonce.runs;
    closes boolean;
BEGIN
    UPDATE chargeonce.records AS t
    SET state = p_state,
        payment_id = coalesce(p_payment_id, t.payment_id),
        code = p_code,
        verdict_state = CASE WHEN is_charged THEN NULL ELSE t.verdict_state END,
        verdict_code = CASE WHEN is_charged THEN NULL ELSE t.verdict_code END,
        verdict_message = CASE WHEN is_charged THEN NULL ELSE t.verdict_message END,
        held_cents = t.held_cents - released_cents,
        lease_until = clock_timestamp(),
        due_at = CASE WHEN p_state = 'processing' THEN clock_timestamp() + interval '1 hour' END,
        updated_at = clock_timestamp()
    WHERE t.customer_id = r.customer_id AND t.billing_period = r.billing_period;
    IF released_cents = 0 AND charged_now_cents = 0 THEN
        RETURN false;
    END IF;
    UPDATE chargeonce.runs AS t
    SET held_cents = t.held_cents - released_cents,
        charged_cents = t.charged_cents + charged_now_cents
    WHERE t.billing_period = r.billing_period AND t.currency = r.currency
    RETURNING t.* INTO run;
    closes := is_charged AND run.is_open AND run.held_cents + run.charged_cents > run.cap_cents;
    IF closes THEN
        UPDATE chargeonce.runs AS t
        SET is_open = false, closed_reason = 'over_cap'
        WHERE t.billing_period = r.billing_period;
    END IF;
    RETURN coalesce(closes, false);
END
$$;

CREATE FUNCTION chargeonce.finish(
    p_customer_id text, p_billing_period text, p_fence bigint, p_state text, p_payment_id text,
    p_code text, p_lost_row jsonb, p_note jsonb, p_parked jsonb, p_body bytea
)
RETURNS TABLE (written boolean, second_payment boolean, run_closed boolean, stored_row jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    r chargeonce.records;
BEGIN
    written := false;
    second_payment := false;
    run_closed := false;
    SELECT * INTO r FROM chargeonce.records AS t
    WHERE t.customer_id = p_customer_id AND t.billing_period = p_billing_period
    FOR UPDATE;
    IF r.customer_id IS NULL AND p_state = 'charged' THEN
        -- The database lost the row, but here is proof of its charge.
        INSERT INTO chargeonce.records (
            customer_id, billing_period, key, stripe_customer_id, amount_cents, currency, attempt,
            state, fence, attempt_fence, flow, create_parameters, create_number,
            payment_method_id, held_cents, attempt_started_at, lease_until
        )
        SELECT
            lost.customer_id, lost.billing_period, lost.key, lost.stripe_customer_id,
            lost.amount_cents, lost.currency, lost.attempt, 'in_progress', lost.fence,
            lost.attempt_fence, lost.flow, lost.create_parameters, lost.create_number,
            lost.payment_method_id, 0, clock_timestamp(), clock_timestamp()
        FROM jsonb_populate_record(NULL::chargeonce.records, p_lost_row) AS lost
        ON CONFLICT DO NOTHING;
        SELECT * INTO r FROM chargeonce.records AS t
        WHERE t.customer_id = p_customer_id AND t.billing_period = p_billing_period
        FOR UPDATE;
    END IF;
    IF r.state = 'charged' THEN
        second_payment := p_state = 'charged' AND r.payment_id <> p_payment_id;
    ELSIF p_state = 'charged'
        OR (r.fence = p_fence AND r.state IN ('in_progress', 'in_doubt', 'processing'))
    THEN
        run_closed := chargeonce.end_record(r, p_state, p_payment_id, p_code);
        written := true;
    END IF;
    SELECT * INTO r FROM chargeonce.records AS t
    WHERE t.customer_id = p_customer_id AND t.billing_period = p_billing_period;
    PERFORM chargeonce.note(p_customer_id, p_billing_period, r.attempt, p_fence, p_note);
    IF p_parked IS NOT NULL THEN
        PERFORM chargeonce.park(
            p_customer_id, p_billing_period, p_parked ->> 'reason', p_parked ->> 'description',
            p_body, p_note
        );
    END IF;
    stored_row := CASE WHEN r.customer_id IS NULL THEN NULL ELSE to_jsonb(r) END;
    RETURN NEXT;
END
$$;

CREATE FUNCTION chargeonce.release(
    p_customer_id text, p_billing_period text, p_fence bigint, p_doubt boolean,
    p_create_in_doubt boolean, p_code text, p_due_in_seconds double precision, p_note jsonb,
    p_parked jsonb, p_body bytea
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    released_attempt integer;
BEGIN
    UPDATE chargeonce.records AS t
    SET state = CASE WHEN p_doubt AND t.state = 'in_progress' THEN 'in_doubt' ELSE t.state END,
        doubts = t.doubts + p_doubt::integer,
        create_in_doubt = t.create_in_doubt OR p_create_in_doubt,
        code = p_code,
        lease_until = clock_timestamp(),
        due_at = clock_timestamp() + make_interval(secs => p_due_in_seconds),
        updated_at = clock_timestamp()
    WHERE t.customer_id = p_customer_id
      AND t.billing_period = p_billing_period
      AND t.fence = p_fence
      AND t.state IN ('in_progress', 'in_doubt', 'processing')
    RETURNING t.attempt INTO released_attempt;
    PERFORM chargeonce.note(p_customer_id, p_billing_period, released_attempt, p_fence, p_note);
    IF p_parked IS NOT NULL THEN
        PERFORM chargeonce.park(
            p_customer_id, p_billing_period, p_parked ->> 'reason', p_parked ->> 'description',
            p_body, p_note
        );
    END IF;
END
$$;

CREATE FUNCTION chargeonce.park_invalid(
    p_reason text, p_description text, p_body bytea, p_note jsonb
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM chargeonce.note(NULL, NULL, NULL, NULL, p_note);
    PERFORM chargeonce.park(NULL, NULL, p_reason, p_description, p_body, p_note);
END
$$;

-- Opens a run. Claims wait while what the period already holds and charged is counted in.
CREATE FUNCTION chargeonce.open_run(
    p_billing_period text, p_currency text, p_expected_cents bigint, p_cap_cents bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM chargeonce.runs AS t WHERE t.billing_period = p_billing_period) THEN
        RETURN false;
    END IF;
    LOCK TABLE chargeonce.records IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO chargeonce.runs (
        billing_period, currency, expected_cents, cap_cents, held_cents, charged_cents
    )
    SELECT
        p_billing_period, p_currency, p_expected_cents, p_cap_cents,
        coalesce(
            sum(t.amount_cents) FILTER (WHERE t.state IN ('in_progress', 'in_doubt', 'processing')), 0
        ),
        coalesce(sum(t.amount_cents) FILTER (WHERE t.state = 'charged'), 0)
    FROM chargeonce.records AS t
    WHERE t.billing_period = p_billing_period AND t.currency = p_currency
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE chargeonce.records AS t
    SET held_cents = t.amount_cents
    WHERE t.billing_period = p_billing_period
      AND t.currency = p_currency
      AND t.state IN ('in_progress', 'in_doubt', 'processing');
    RETURN true;
END
$$;
