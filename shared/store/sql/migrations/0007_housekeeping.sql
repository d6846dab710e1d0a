-- Forgetting: old lines after a while, and a customer's personal data when it is asked for. What
-- proves a charge, and what prevents a second one, stays.

-- Whether a parked event has nothing left to ask for. What is no usage event never had; the others
-- wait for their record to come to an end that no delivery of them can change.
CREATE FUNCTION chargeonce.is_done_with(parked chargeonce.parked_events) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN parked.customer_id IS NULL OR EXISTS (
        SELECT FROM chargeonce.records AS kept
        WHERE kept.customer_id = parked.customer_id
          AND kept.billing_period = parked.billing_period
          AND (
              kept.state IN ('charged', 'canceled')
              OR (kept.state = 'rejected' AND parked.reason = 'Rejected')
          )
    );
END
$$;

-- Deletes some of the lines that are older than so many days, and says how many.
CREATE FUNCTION chargeonce.delete_old(
    p_days integer, p_limit integer, OUT attempts bigint, OUT parked_events bigint
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    oldest_kept timestamptz := now() - make_interval(days => p_days);
BEGIN
    -- The oldest lines only are looked at: they were numbered as they came.
    WITH oldest AS (
        SELECT line.id, line.noted_at FROM chargeonce.attempts AS line
        ORDER BY line.id
        LIMIT p_limit
    )
    DELETE FROM chargeonce.attempts AS target
    USING oldest
    WHERE target.id = oldest.id
      AND oldest.noted_at < oldest_kept
      -- The last sign of life, from which a rebuild would read Stripe's lists.
      AND target.id IS DISTINCT FROM (
          SELECT newest.id FROM chargeonce.attempts AS newest
          WHERE newest.decision = 'claimed'
          ORDER BY newest.id DESC
          LIMIT 1
      );
    GET DIAGNOSTICS attempts = ROW_COUNT;
    DELETE FROM chargeonce.parked_events AS target
    WHERE target.id IN (
        SELECT parked.id FROM chargeonce.parked_events AS parked
        WHERE parked.parked_at < oldest_kept AND chargeonce.is_done_with(parked)
        ORDER BY parked.id
        LIMIT p_limit
    );
    GET DIAGNOSTICS parked_events = ROW_COUNT;
END
$$;

-- The periods about which something of a customer is kept.
CREATE FUNCTION chargeonce.periods_of(p_customer_id text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT kept.billing_period FROM chargeonce.records AS kept
    WHERE kept.customer_id = p_customer_id
    UNION
    SELECT parked.billing_period FROM chargeonce.parked_events AS parked
    WHERE parked.customer_id = p_customer_id
    UNION
    SELECT message.billing_period FROM chargeonce.kept_messages AS message
    WHERE message.customer_id = p_customer_id
    UNION
    SELECT line.billing_period FROM chargeonce.attempts AS line
    WHERE line.customer_id = p_customer_id AND line.billing_period IS NOT NULL
    ORDER BY 1;
END
$$;

-- Erases what is personal about a customer's period, or says what stands in the way. The row stays,
-- with its key, fingerprint, state and payment: they prove the charge, and a redelivery must find
-- them.
CREATE FUNCTION chargeonce.erase(
    p_customer_id text, p_billing_period text, p_dry_run boolean, p_note jsonb, OUT obstacle text
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    stored chargeonce.records;
BEGIN
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = p_customer_id AND kept.billing_period = p_billing_period
    FOR UPDATE;
    obstacle := CASE
        WHEN stored.state IN ('in_progress', 'in_doubt', 'processing', 'parked')
            THEN 'unfinished_record'
        WHEN EXISTS (
            SELECT FROM chargeonce.kept_messages AS message
            WHERE message.billing_period = p_billing_period
              AND message.customer_id = p_customer_id
        ) THEN 'kept_message'
        WHEN EXISTS (
            SELECT FROM chargeonce.parked_events AS parked
            WHERE parked.billing_period = p_billing_period
              AND parked.customer_id = p_customer_id
              AND NOT chargeonce.is_done_with(parked)
        ) THEN 'parked_event'
    END;
    IF obstacle IS NOT NULL OR p_dry_run THEN
        RETURN;
    END IF;
    UPDATE chargeonce.records AS target
    SET create_parameters = '{}',
        payment_method_id = NULL,
        verdict_message = CASE WHEN target.verdict_state IS NOT NULL THEN '' END,
        erased_at = clock_timestamp(),
        updated_at = clock_timestamp()
    WHERE target.customer_id = p_customer_id AND target.billing_period = p_billing_period;
    UPDATE chargeonce.attempts AS line
    SET message_id = ''
    WHERE line.customer_id = p_customer_id
      AND line.billing_period = p_billing_period
      AND line.message_id <> '';
    DELETE FROM chargeonce.parked_events AS parked
    WHERE parked.billing_period = p_billing_period AND parked.customer_id = p_customer_id;
    IF stored.erased_at IS NULL THEN
        PERFORM chargeonce.note(
            p_customer_id, p_billing_period, stored.attempt, stored.fence, 'erased', p_note
        );
    END IF;
END
$$;

-- Erases parked messages that are no usage events and name the customer as JSON would; says how
-- many there are.
CREATE FUNCTION chargeonce.erase_invalid(p_customer_id text, p_dry_run boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    named bytea := convert_to(to_json(p_customer_id)::text, 'UTF8');
    found_count bigint;
BEGIN
    SELECT count(*) INTO found_count FROM chargeonce.parked_events AS parked
    WHERE parked.customer_id IS NULL AND position(named IN parked.body) > 0;
    IF NOT p_dry_run THEN
        DELETE FROM chargeonce.parked_events AS parked
        WHERE parked.customer_id IS NULL AND position(named IN parked.body) > 0;
    END IF;
    RETURN found_count;
END
$$;
