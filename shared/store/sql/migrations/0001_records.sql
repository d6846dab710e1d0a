-- The records, the runs, and what happened to each delivery.
--
-- Each call of the store is one statement and one transaction. It locks a record first and its run
-- last, never the other way round. What it need not write it does not lock: a duplicate leaves no
-- trace but its line in `attempts`.
--
-- The functions are plpgsql, which keeps its plans for the session; servers before 18 plan a
-- function in SQL anew for each transaction. Those that the store calls plan without sequential
-- scans: a plan that was made while the table was small would read all of it when it is large.

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
    claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    previous_claim_at timestamptz,
    lease_until timestamptz NOT NULL,
    due_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (billing_period, customer_id),
    CHECK (state <> 'charged' OR payment_id IS NOT NULL),
    CHECK (held_cents = 0 OR state IN ('in_progress', 'in_doubt', 'processing'))
);

ALTER TABLE chargeonce.records SET (fillfactor = 70);

-- The only index beside the primary key, and of no use for finding a record: a session keeps the
-- plans that it made while the table was small, and must not have made them with another index.
CREATE INDEX records_due ON chargeonce.records (due_at) WHERE due_at IS NOT NULL;

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
ON chargeonce.parked_events (transport, message_id, reason, sha256(body));

CREATE INDEX parked_events_by_period ON chargeonce.parked_events (billing_period);

CREATE FUNCTION chargeonce.present_timeline() RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
$$;

INSERT INTO chargeonce.cluster (system_identifier, timeline)
SELECT system_identifier, chargeonce.present_timeline() FROM pg_control_system();

-- After a failover or a restore the server has another timeline or identity, and may have lost
-- the record of a charge.
CREATE FUNCTION chargeonce.is_suspended() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN NOT EXISTS (
        SELECT FROM chargeonce.cluster AS known, pg_control_system() AS present
        -- By its primary key: servers before 18 would compile a plan with a scan that is off.
        WHERE known.is_only_row
          AND known.system_identifier = present.system_identifier
          AND known.timeline = chargeonce.present_timeline()
    );
END
$$;

CREATE FUNCTION chargeonce.identify(p_account_id text, p_livemode boolean)
RETURNS TABLE (account_id text, livemode boolean)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE chargeonce.cluster AS target
    SET account_id = coalesce(target.account_id, p_account_id),
        livemode = coalesce(target.livemode, p_livemode)
    WHERE (target.account_id IS NULL AND p_account_id IS NOT NULL)
       OR (target.livemode IS NULL AND p_livemode IS NOT NULL);
    RETURN QUERY SELECT known.account_id, known.livemode FROM chargeonce.cluster AS known;
END
$$;

CREATE FUNCTION chargeonce.note(
    p_customer_id text, p_billing_period text, p_attempt integer, p_fence bigint,
    p_decision text, p_note jsonb
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chargeonce.attempts (
        customer_id, billing_period, attempt, fence, transport, message_id, delivery_count,
        decision, code, request_id
    )
    VALUES (
        p_customer_id, p_billing_period, p_attempt, p_fence, p_note ->> 'transport',
        p_note ->> 'message_id', (p_note ->> 'delivery_count')::integer, p_decision,
        p_note ->> 'code', p_note ->> 'request_id'
    );
END
$$;

CREATE FUNCTION chargeonce.park(
    p_customer_id text, p_billing_period text, p_reason text, p_description text, p_body bytea,
    p_note jsonb
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chargeonce.parked_events (
        reason, description, body, transport, message_id, delivery_count, attributes,
        customer_id, billing_period
    )
    VALUES (
        p_reason, p_description, p_body, p_note ->> 'transport', p_note ->> 'message_id',
        (p_note ->> 'delivery_count')::integer, p_note -> 'attributes', p_customer_id,
        p_billing_period
    )
    ON CONFLICT DO NOTHING;
END
$$;

-- Holds an amount against the run's cap. The check is part of the update, so it is made again on
-- the row as the claim before has left it.
CREATE FUNCTION chargeonce.hold(
    p_billing_period text, p_currency text, p_amount_cents bigint, p_require_run boolean,
    OUT refusal text, OUT held_cents bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    run chargeonce.runs;
BEGIN
    held_cents := p_amount_cents;
    UPDATE chargeonce.runs AS target
    SET held_cents = target.held_cents + p_amount_cents
    WHERE target.billing_period = p_billing_period
      AND target.currency = p_currency
      AND target.is_open
      AND target.held_cents + target.charged_cents + p_amount_cents <= target.cap_cents;
    IF FOUND THEN
        RETURN;
    END IF;
    held_cents := 0;
    SELECT * INTO run FROM chargeonce.runs AS kept WHERE kept.billing_period = p_billing_period;
    refusal := CASE
        WHEN NOT FOUND THEN CASE WHEN p_require_run THEN 'run_missing' END
        WHEN run.currency <> p_currency THEN 'wrong_currency'
        WHEN NOT run.is_open THEN 'run_closed'
        ELSE 'cap_reached'
    END;
END
$$;

-- Whether an unfinished record may be had: the token has it, another has it, or it is free.
CREATE FUNCTION chargeonce.judge_lease(stored chargeonce.records, p_token uuid) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE
        WHEN stored.holder = p_token THEN 'claimed_before'
        WHEN stored.lease_until > clock_timestamp() THEN 'busy'
        ELSE 'take_over'
    END;
END
$$;

-- What a claim comes to: the answer, or the step that would make it 'claimed'. Writes nothing.
CREATE FUNCTION chargeonce.judge_claim(
    stored chargeonce.records, p_stripe_customer_id text, p_amount_cents bigint, p_currency text,
    p_attempt integer, p_token uuid
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    judged_lease text;
BEGIN
    IF chargeonce.is_suspended() THEN
        RETURN 'suspended';
    ELSIF stored.customer_id IS NULL THEN
        RETURN 'insert';
    ELSIF stored.stripe_customer_id <> p_stripe_customer_id
        OR stored.amount_cents <> p_amount_cents
        OR stored.currency <> p_currency
    THEN
        RETURN 'conflict';
    ELSIF stored.state = 'parked'
        OR (stored.state IN ('declined', 'rejected') AND p_attempt > stored.attempt)
    THEN
        RETURN 'open_attempt';
    ELSIF stored.state NOT IN ('in_progress', 'in_doubt') THEN
        RETURN 'settled';
    END IF;
    judged_lease := chargeonce.judge_lease(stored, p_token);
    -- Where reconcile is not to look, only an operator may go on.
    RETURN CASE
        WHEN judged_lease = 'take_over' AND stored.due_at IS NULL THEN 'conflict'
        ELSE judged_lease
    END;
END
$$;

-- Opens the next attempt, or a parked one again, on a record that the caller has locked.
CREATE FUNCTION chargeonce.open_attempt(
    stored chargeonce.records, p_attempt integer, p_payment_method_id text, p_flow text,
    p_create_parameters jsonb, p_held_cents bigint, p_lease_seconds double precision, p_token uuid
) RETURNS chargeonce.records
LANGUAGE plpgsql AS $$
DECLARE
    is_next boolean := stored.state <> 'parked';
BEGIN
    UPDATE chargeonce.records AS target
    SET state = 'in_progress',
        fence = target.fence + 1,
        attempt_fence = target.fence + 1,
        holder = p_token,
        payment_id = NULL,
        verdict_state = NULL,
        verdict_code = NULL,
        verdict_message = NULL,
        code = NULL,
        held_cents = p_held_cents,
        doubts = 0,
        attempt_started_at = clock_timestamp(),
        claimed_at = clock_timestamp(),
        previous_claim_at = NULL,
        lease_until = clock_timestamp() + make_interval(secs => p_lease_seconds),
        due_at = clock_timestamp(),
        updated_at = clock_timestamp(),
        attempt = CASE WHEN is_next THEN p_attempt ELSE target.attempt END,
        flow = CASE WHEN is_next THEN p_flow ELSE target.flow END,
        create_parameters = CASE
            WHEN is_next THEN p_create_parameters ELSE target.create_parameters
        END,
        payment_method_id = CASE
            WHEN is_next THEN p_payment_method_id ELSE target.payment_method_id
        END,
        -- The parked PaymentIntent is canceled, and its key would bring it back.
        create_number = CASE WHEN is_next THEN 0 ELSE target.create_number + 1 END
    WHERE target.customer_id = stored.customer_id
      AND target.billing_period = stored.billing_period
    RETURNING * INTO stored;
    RETURN stored;
END
$$;

-- Takes over a record that the caller has locked.
CREATE FUNCTION chargeonce.take_over(
    stored chargeonce.records, p_lease_seconds double precision, p_token uuid
) RETURNS chargeonce.records
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE chargeonce.records AS target
    SET fence = target.fence + 1,
        holder = p_token,
        previous_claim_at = target.claimed_at,
        claimed_at = clock_timestamp(),
        lease_until = clock_timestamp() + make_interval(secs => p_lease_seconds),
        updated_at = clock_timestamp()
    WHERE target.customer_id = stored.customer_id
      AND target.billing_period = stored.billing_period
    RETURNING * INTO stored;
    RETURN stored;
END
$$;

CREATE FUNCTION chargeonce.note_claim(
    stored chargeonce.records, p_customer_id text, p_billing_period text, p_verdict text,
    p_note jsonb, p_body bytea
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    decision text := CASE
        WHEN p_verdict = 'settled' THEN 'already_' || stored.state ELSE p_verdict
    END;
    -- As in shared.outcome: what is dead-lettered is kept.
    reason text := CASE decision
        WHEN 'conflict' THEN 'Conflict'
        WHEN 'run_closed' THEN 'RunClosed'
        WHEN 'wrong_currency' THEN 'WrongCurrency'
        WHEN 'cap_reached' THEN 'CapReached'
        WHEN 'already_rejected' THEN 'Rejected'
    END;
BEGIN
    PERFORM chargeonce.note(
        p_customer_id, p_billing_period, stored.attempt, stored.fence, decision, p_note
    );
    IF reason IS NOT NULL THEN
        PERFORM chargeonce.park(p_customer_id, p_billing_period, reason, decision, p_body, p_note);
    END IF;
END
$$;

CREATE FUNCTION chargeonce.claim(
    p_customer_id text, p_billing_period text, p_key text, p_stripe_customer_id text,
    p_amount_cents bigint, p_currency text, p_attempt integer, p_payment_method_id text,
    p_flow text, p_create_parameters jsonb, p_require_run boolean,
    p_lease_seconds double precision, p_token uuid, p_note jsonb, p_body bytea,
    OUT verdict text, OUT database_time timestamptz, OUT stored_row jsonb
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    stored chargeonce.records;
    step text;
    hold record;
BEGIN
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = p_customer_id AND kept.billing_period = p_billing_period;
    step := chargeonce.judge_claim(
        stored, p_stripe_customer_id, p_amount_cents, p_currency, p_attempt, p_token
    );
    IF step = 'insert' THEN
        INSERT INTO chargeonce.records (
            customer_id, billing_period, key, stripe_customer_id, amount_cents, currency,
            attempt, state, fence, attempt_fence, holder, flow, create_parameters,
            payment_method_id, held_cents, attempt_started_at, lease_until, due_at
        )
        VALUES (
            p_customer_id, p_billing_period, p_key, p_stripe_customer_id, p_amount_cents,
            p_currency, p_attempt, 'in_progress', 1, 1, p_token, p_flow, p_create_parameters,
            p_payment_method_id, p_amount_cents, clock_timestamp(),
            clock_timestamp() + make_interval(secs => p_lease_seconds), clock_timestamp()
        )
        ON CONFLICT DO NOTHING
        RETURNING * INTO stored;
    END IF;
    -- What is to be written is locked first, and judged again as it is now.
    IF step IN ('open_attempt', 'take_over')
        OR (step = 'insert' AND stored.customer_id IS NULL)
    THEN
        SELECT * INTO stored FROM chargeonce.records AS kept
        WHERE kept.customer_id = p_customer_id AND kept.billing_period = p_billing_period
        FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'record vanished' USING ERRCODE = 'serialization_failure';
        END IF;
        step := chargeonce.judge_claim(
            stored, p_stripe_customer_id, p_amount_cents, p_currency, p_attempt, p_token
        );
    END IF;

    verdict := step;
    IF step IN ('insert', 'open_attempt') THEN
        hold := chargeonce.hold(p_billing_period, p_currency, p_amount_cents, p_require_run);
        verdict := coalesce(hold.refusal, 'claimed');
        IF step = 'open_attempt' AND hold.refusal IS NULL THEN
            stored := chargeonce.open_attempt(
                stored, p_attempt, p_payment_method_id, p_flow, p_create_parameters,
                hold.held_cents, p_lease_seconds, p_token
            );
        ELSIF step = 'insert' AND hold.refusal IS NOT NULL THEN
            DELETE FROM chargeonce.records AS target
            WHERE target.customer_id = p_customer_id AND target.billing_period = p_billing_period;
            stored := NULL;
        ELSIF step = 'insert' AND hold.held_cents = 0 THEN
            UPDATE chargeonce.records AS target
            SET held_cents = 0
            WHERE target.customer_id = p_customer_id AND target.billing_period = p_billing_period
            RETURNING * INTO stored;
        END IF;
    ELSIF step = 'take_over' THEN
        stored := chargeonce.take_over(stored, p_lease_seconds, p_token);
        verdict := 'claimed';
    ELSIF step = 'claimed_before' THEN
        verdict := 'claimed';
    END IF;

    IF step <> 'claimed_before' THEN
        PERFORM chargeonce.note_claim(
            stored, p_customer_id, p_billing_period, verdict, p_note, p_body
        );
    END IF;
    stored_row := CASE WHEN stored.customer_id IS NOT NULL THEN to_jsonb(stored) END;
    database_time := clock_timestamp();
END
$$;

CREATE FUNCTION chargeonce.judge_resume(stored chargeonce.records, p_token uuid) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF chargeonce.is_suspended() THEN
        RETURN 'suspended';
    ELSIF stored.state IN ('in_progress', 'in_doubt', 'processing') THEN
        RETURN chargeonce.judge_lease(stored, p_token);
    END IF;
    RETURN 'settled';
END
$$;

CREATE FUNCTION chargeonce.resume(
    p_customer_id text, p_billing_period text, p_lease_seconds double precision, p_token uuid,
    p_note jsonb, OUT verdict text, OUT database_time timestamptz, OUT stored_row jsonb
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    stored chargeonce.records;
BEGIN
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = p_customer_id AND kept.billing_period = p_billing_period;
    verdict := chargeonce.judge_resume(stored, p_token);
    IF verdict = 'take_over' THEN
        SELECT * INTO stored FROM chargeonce.records AS kept
        WHERE kept.customer_id = p_customer_id AND kept.billing_period = p_billing_period
        FOR UPDATE;
        verdict := chargeonce.judge_resume(stored, p_token);
    END IF;
    IF verdict = 'take_over' THEN
        stored := chargeonce.take_over(stored, p_lease_seconds, p_token);
        verdict := 'claimed';
        PERFORM chargeonce.note(
            p_customer_id, p_billing_period, stored.attempt, stored.fence, verdict, p_note
        );
    ELSIF verdict = 'claimed_before' THEN
        verdict := 'claimed';
    END IF;
    stored_row := CASE WHEN stored.customer_id IS NOT NULL THEN to_jsonb(stored) END;
    database_time := clock_timestamp();
END
$$;

-- What is stored stays: only that PaymentIntent is ever confirmed.
CREATE FUNCTION chargeonce.store_payment(
    p_customer_id text, p_billing_period text, p_fence bigint, p_payment_id text
) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    stored_id text;
BEGIN
    UPDATE chargeonce.records AS target
    SET payment_id = coalesce(target.payment_id, p_payment_id),
        updated_at = clock_timestamp()
    WHERE target.customer_id = p_customer_id
      AND target.billing_period = p_billing_period
      AND target.fence = p_fence
      AND target.holder IS NOT NULL
      AND target.state IN ('in_progress', 'in_doubt', 'processing')
    RETURNING target.payment_id INTO stored_id;
    RETURN stored_id;
END
$$;

CREATE FUNCTION chargeonce.store_verdict(
    p_customer_id text, p_billing_period text, p_fence bigint, p_state text, p_code text,
    p_message text
) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE chargeonce.records AS target
    SET verdict_state = p_state,
        verdict_code = p_code,
        verdict_message = p_message,
        updated_at = clock_timestamp()
    WHERE target.customer_id = p_customer_id
      AND target.billing_period = p_billing_period
      AND target.fence = p_fence
      AND target.holder IS NOT NULL
      AND target.state IN ('in_progress', 'in_doubt', 'processing');
    RETURN FOUND;
END
$$;

-- Writes an ending on a record that the caller has locked.
CREATE FUNCTION chargeonce.end_record(
    stored chargeonce.records, p_fence bigint, p_state text, p_payment_id text, p_code text
) RETURNS chargeonce.records
LANGUAGE plpgsql AS $$
DECLARE
    is_charged boolean := p_state = 'charged';
    is_processing boolean := p_state = 'processing';
BEGIN
    UPDATE chargeonce.records AS target
    SET state = p_state,
        -- A stale holder's proof outdates its successor, whose ending would pass for this one.
        fence = target.fence + (target.fence <> p_fence)::integer,
        holder = NULL,
        payment_id = coalesce(p_payment_id, target.payment_id),
        code = p_code,
        verdict_state = CASE WHEN NOT is_charged THEN target.verdict_state END,
        verdict_code = CASE WHEN NOT is_charged THEN target.verdict_code END,
        verdict_message = CASE WHEN NOT is_charged THEN target.verdict_message END,
        held_cents = CASE WHEN is_processing THEN target.held_cents ELSE 0 END,
        lease_until = clock_timestamp(),
        due_at = CASE WHEN is_processing THEN clock_timestamp() + interval '1 hour' END,
        updated_at = clock_timestamp()
    WHERE target.customer_id = stored.customer_id
      AND target.billing_period = stored.billing_period
    RETURNING * INTO stored;
    RETURN stored;
END
$$;

-- Moves money that a record held or that was charged. Proof of money counts even past the cap, and
-- then closes the run: whether it did is returned.
CREATE FUNCTION chargeonce.move_money(
    p_billing_period text, p_currency text, p_released_cents bigint, p_charged_cents bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    closes boolean;
BEGIN
    IF p_released_cents = 0 AND p_charged_cents = 0 THEN
        RETURN false;
    END IF;
    UPDATE chargeonce.runs AS target
    SET held_cents = target.held_cents - p_released_cents,
        charged_cents = target.charged_cents + p_charged_cents
    WHERE target.billing_period = p_billing_period AND target.currency = p_currency
    RETURNING p_charged_cents > 0
        AND target.is_open
        AND target.held_cents + target.charged_cents > target.cap_cents
    INTO closes;
    IF closes THEN
        UPDATE chargeonce.runs AS target
        SET is_open = false, closed_reason = 'over_cap'
        WHERE target.billing_period = p_billing_period;
    END IF;
    RETURN coalesce(closes, false);
END
$$;

-- Brings back a record that the database has lost, to write the proof of its charge on it.
CREATE FUNCTION chargeonce.restore(p_lost_row jsonb) RETURNS chargeonce.records
LANGUAGE plpgsql AS $$
DECLARE
    lost chargeonce.records := jsonb_populate_record(NULL::chargeonce.records, p_lost_row);
    stored chargeonce.records;
BEGIN
    INSERT INTO chargeonce.records (
        customer_id, billing_period, key, stripe_customer_id, amount_cents, currency, attempt,
        state, fence, attempt_fence, flow, create_parameters, create_number, payment_method_id,
        held_cents, doubts, create_in_doubt, attempt_started_at, lease_until
    )
    VALUES (
        lost.customer_id, lost.billing_period, lost.key, lost.stripe_customer_id,
        lost.amount_cents, lost.currency, lost.attempt, 'in_progress', lost.fence,
        lost.attempt_fence, lost.flow, lost.create_parameters, lost.create_number,
        lost.payment_method_id, 0, lost.doubts, lost.create_in_doubt, lost.attempt_started_at,
        clock_timestamp()
    )
    ON CONFLICT DO NOTHING;
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = lost.customer_id AND kept.billing_period = lost.billing_period
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'record vanished' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN stored;
END
$$;

-- What an ending comes to: 'write' it, 'written_before' (its answer was lost), 'second_payment', or
-- 'refuse' it, because the lease is gone and it is no proof of a charge.
CREATE FUNCTION chargeonce.judge_ending(
    stored chargeonce.records, p_fence bigint, p_state text, p_payment_id text
) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF stored.state = 'charged' AND p_state = 'charged' AND stored.payment_id <> p_payment_id THEN
        RETURN 'second_payment';
    ELSIF stored.fence = p_fence AND stored.state = p_state AND stored.holder IS NULL THEN
        RETURN 'written_before';
    ELSIF stored.state = 'charged' THEN
        RETURN 'refuse';
    ELSIF p_state = 'charged' THEN
        RETURN 'write';
    ELSIF stored.fence = p_fence
        AND stored.holder IS NOT NULL
        AND stored.state IN ('in_progress', 'in_doubt', 'processing')
    THEN
        RETURN 'write';
    END IF;
    RETURN 'refuse';
END
$$;

CREATE FUNCTION chargeonce.finish(
    p_customer_id text, p_billing_period text, p_fence bigint, p_state text, p_payment_id text,
    p_code text, p_lost_row jsonb, p_note jsonb, p_parked jsonb, p_body bytea,
    OUT written boolean, OUT second_payment boolean, OUT run_closed boolean, OUT stored_row jsonb
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    stored chargeonce.records;
    judged text;
    released_cents bigint;
BEGIN
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = p_customer_id AND kept.billing_period = p_billing_period
    FOR UPDATE;
    IF NOT FOUND AND p_state = 'charged' THEN
        stored := chargeonce.restore(p_lost_row);
    END IF;
    judged := chargeonce.judge_ending(stored, p_fence, p_state, p_payment_id);
    written := judged IN ('write', 'written_before');
    second_payment := judged = 'second_payment';
    run_closed := false;
    IF judged = 'write' THEN
        released_cents := stored.held_cents;
        stored := chargeonce.end_record(stored, p_fence, p_state, p_payment_id, p_code);
        released_cents := released_cents - stored.held_cents;
    END IF;
    IF judged <> 'written_before' THEN
        PERFORM chargeonce.note(
            p_customer_id, p_billing_period, stored.attempt, p_fence, p_note ->> 'decision', p_note
        );
    END IF;
    -- Where the lease is gone, the message is dead-lettered only if the record was rejected.
    IF p_parked IS NOT NULL AND (written OR stored.state = 'rejected') THEN
        PERFORM chargeonce.park(
            p_customer_id, p_billing_period, p_parked ->> 'reason', p_parked ->> 'description',
            p_body, p_note
        );
    END IF;
    -- Last, because whoever else charges in this run waits for its row until the commit.
    IF judged = 'write' THEN
        run_closed := chargeonce.move_money(
            p_billing_period, stored.currency, released_cents,
            CASE WHEN p_state = 'charged' THEN stored.amount_cents ELSE 0 END
        );
    END IF;
    stored_row := CASE WHEN stored.customer_id IS NOT NULL THEN to_jsonb(stored) END;
END
$$;

CREATE FUNCTION chargeonce.release(
    p_customer_id text, p_billing_period text, p_fence bigint, p_doubt boolean,
    p_create_in_doubt boolean, p_code text, p_due_in_seconds double precision, p_note jsonb,
    p_parked jsonb, p_body bytea
) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    stored chargeonce.records;
BEGIN
    UPDATE chargeonce.records AS target
    SET state = CASE
            WHEN p_doubt AND target.state = 'in_progress' THEN 'in_doubt' ELSE target.state
        END,
        holder = NULL,
        doubts = target.doubts + p_doubt::integer,
        create_in_doubt = target.create_in_doubt OR p_create_in_doubt,
        code = p_code,
        lease_until = clock_timestamp(),
        due_at = clock_timestamp() + make_interval(secs => p_due_in_seconds),
        updated_at = clock_timestamp()
    WHERE target.customer_id = p_customer_id
      AND target.billing_period = p_billing_period
      AND target.fence = p_fence
      AND target.holder IS NOT NULL
      AND target.state IN ('in_progress', 'in_doubt', 'processing')
    RETURNING * INTO stored;
    IF NOT FOUND THEN
        SELECT * INTO stored FROM chargeonce.records AS kept
        WHERE kept.customer_id = p_customer_id AND kept.billing_period = p_billing_period;
        -- Released before: the answer was lost.
        IF stored.fence = p_fence AND stored.holder IS NULL THEN
            RETURN;
        END IF;
    END IF;
    PERFORM chargeonce.note(
        p_customer_id, p_billing_period, stored.attempt, p_fence, p_note ->> 'decision', p_note
    );
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
    PERFORM chargeonce.note(NULL, NULL, NULL, NULL, p_note ->> 'decision', p_note);
    PERFORM chargeonce.park(NULL, NULL, p_reason, p_description, p_body, p_note);
END
$$;

-- Opens a run that counts in what its period already holds and charged.
CREATE FUNCTION chargeonce.open_run(
    p_billing_period text, p_currency text, p_expected_cents bigint, p_cap_cents bigint,
    OUT opened boolean, OUT stored_run jsonb
)
LANGUAGE plpgsql AS $$
BEGIN
    opened := false;
    IF NOT EXISTS (SELECT FROM chargeonce.runs WHERE billing_period = p_billing_period) THEN
        -- From here on nobody else writes or locks a record. A weaker lock would let in whoever has
        -- locked a record and is about to write it, and then wait for that record: a deadlock.
        LOCK TABLE chargeonce.records IN EXCLUSIVE MODE;
        INSERT INTO chargeonce.runs (
            billing_period, currency, expected_cents, cap_cents, held_cents, charged_cents
        )
        SELECT
            p_billing_period, p_currency, p_expected_cents, p_cap_cents,
            coalesce(
                sum(kept.amount_cents)
                    FILTER (WHERE kept.state IN ('in_progress', 'in_doubt', 'processing')),
                0
            ),
            coalesce(sum(kept.amount_cents) FILTER (WHERE kept.state = 'charged'), 0)
        FROM chargeonce.records AS kept
        WHERE kept.billing_period = p_billing_period AND kept.currency = p_currency
        ON CONFLICT DO NOTHING;
        opened := FOUND;
    END IF;
    IF opened THEN
        UPDATE chargeonce.records AS target
        SET held_cents = target.amount_cents
        WHERE target.billing_period = p_billing_period
          AND target.currency = p_currency
          AND target.state IN ('in_progress', 'in_doubt', 'processing');
    END IF;
    SELECT to_jsonb(kept) INTO stored_run
    FROM chargeonce.runs AS kept WHERE kept.billing_period = p_billing_period;
END
$$;
