-- Four rules of recovery that were not kept.

-- As before, but what only an operator may drive on stays at rest: giving the lease up again after a
-- cancel that proved nothing must not hand the record to reconcile.
CREATE OR REPLACE FUNCTION chargeonce.release(
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
        due_at = CASE
            WHEN p_due_in_seconds IS NOT NULL AND target.due_at IS NOT NULL
            THEN greatest(
                target.due_at, clock_timestamp() + make_interval(secs => p_due_in_seconds)
            )
        END,
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

-- As before, but a message that is refused again after it was resubmitted is shown again.
CREATE OR REPLACE FUNCTION chargeonce.park(
    p_customer_id text, p_billing_period text, p_reason text, p_description text, p_body bytea,
    p_note jsonb
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chargeonce.parked_events AS target (
        reason, description, body, transport, message_id, delivery_count, attributes,
        customer_id, billing_period
    )
    VALUES (
        p_reason, p_description, p_body, p_note ->> 'transport', p_note ->> 'message_id',
        (p_note ->> 'delivery_count')::integer, p_note -> 'attributes', p_customer_id,
        p_billing_period
    )
    ON CONFLICT (transport, message_id, reason, sha256(body)) DO UPDATE
    SET resubmitted_at = NULL, parked_at = clock_timestamp(), description = excluded.description
    WHERE target.resubmitted_at IS NOT NULL;
END
$$;

-- The oldest attempt that may have a payment at Stripe which the record does not name. A create that
-- is sent again brings that payment back, so it may be older than everything that was lost.
CREATE FUNCTION chargeonce.oldest_unnamed_attempt() RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT min(kept.attempt_started_at) FROM chargeonce.records AS kept
    WHERE kept.state IN ('in_progress', 'in_doubt') AND kept.payment_id IS NULL
$$;

-- As before, but reads the lists from before the oldest attempt whose payment is not known.
CREATE OR REPLACE FUNCTION chargeonce.begin_rebuild(
    p_told_since timestamptz, p_margin_seconds double precision
)
RETURNS TABLE (
    id bigint, history text, noticed_at timestamptz, since timestamptz, list text, cursor text,
    database_time timestamptz
)
LANGUAGE plpgsql AS $$
DECLARE
    latest chargeonce.rebuilds;
BEGIN
    -- Two that come at once begin one.
    PERFORM FROM chargeonce.cluster AS known WHERE known.is_only_row FOR UPDATE;
    IF p_told_since IS NOT NULL THEN
        UPDATE chargeonce.cluster AS known SET timeline = 'told' WHERE known.is_only_row;
    ELSIF NOT chargeonce.is_suspended() THEN
        RETURN;
    END IF;
    SELECT * INTO latest FROM chargeonce.rebuilds AS kept ORDER BY kept.id DESC LIMIT 1;
    IF p_told_since IS NOT NULL
        OR latest.id IS NULL
        OR latest.finished_at IS NOT NULL
        OR latest.history <> chargeonce.present_history()
    THEN
        INSERT INTO chargeonce.rebuilds (history, since)
        VALUES (
            chargeonce.present_history(),
            least(
                least(
                    p_told_since,
                    chargeonce.last_known_commit(),
                    chargeonce.oldest_unnamed_attempt()
                ) - make_interval(secs => p_margin_seconds),
                -- What an unfinished one had to find is still to be found.
                CASE WHEN latest.finished_at IS NULL THEN latest.since END
            )
        )
        RETURNING * INTO latest;
    END IF;
    RETURN QUERY SELECT
        latest.id, latest.history, latest.noticed_at, latest.since, latest.list, latest.cursor,
        clock_timestamp();
END
$$;

-- As before, but a payment that was made outside does not stop a charge that is under way: such a
-- record is to be canceled first. `is_own` says that the payment's metadata name the record.
CREATE OR REPLACE FUNCTION chargeonce.record_payment(
    p_found jsonb, p_finding text, p_names text[], p_only_new boolean, p_dry_run boolean,
    p_note jsonb, OUT recording text, OUT run_closed boolean, OUT stored_row jsonb
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    found_row chargeonce.records := jsonb_populate_record(NULL::chargeonce.records, p_found);
    is_own boolean := coalesce((p_found ->> 'is_own')::boolean, true);
    stored chargeonce.records;
    adopted record;
BEGIN
    run_closed := false;
    IF NOT p_dry_run THEN
        -- No attempt is opened between the judgment and the write.
        PERFORM FROM chargeonce.records AS kept
        WHERE kept.customer_id = found_row.customer_id
          AND kept.billing_period = found_row.billing_period
        FOR UPDATE;
    END IF;
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = found_row.customer_id
      AND kept.billing_period = found_row.billing_period;
    recording := chargeonce.judge_recording(stored, found_row, p_finding, p_names, p_only_new);
    IF recording IN ('brought_forward', 'beside')
        AND NOT is_own
        AND stored.state IN ('in_progress', 'in_doubt', 'processing')
        AND (stored.payment_id = ANY (p_names)) IS NOT TRUE
        -- A PaymentIntent that is not stored yet is never confirmed.
        AND NOT (stored.flow = 'payment_intent' AND stored.payment_id IS NULL)
    THEN
        recording := 'record_unfinished';
    END IF;
    stored_row := CASE WHEN stored.customer_id IS NOT NULL THEN to_jsonb(stored) END;
    IF p_dry_run OR recording NOT IN ('restored', 'brought_forward') THEN
        RETURN;
    END IF;
    -- Waits for whoever records the same payment at this moment.
    INSERT INTO chargeonce.adopted_payments (payment_id, customer_id, billing_period)
    SELECT name, found_row.customer_id, found_row.billing_period FROM unnest(p_names) AS name
    ON CONFLICT DO NOTHING;
    adopted := chargeonce.adopt(p_found, p_finding, false, p_note);
    IF adopted.adoption <> recording
        OR chargeonce.pays_elsewhere(p_names, found_row.customer_id, found_row.billing_period)
    THEN
        RAISE EXCEPTION 'judged before somebody else wrote' USING ERRCODE = 'serialization_failure';
    END IF;
    run_closed := adopted.run_closed;
    stored_row := adopted.stored_row;
END
$$;
