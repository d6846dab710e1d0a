-- What an operator does to records: closing them, recording payments that were made elsewhere,
-- erasing a customer's personal data; and how old lines are deleted.

-- Payments that were recorded by an operator's word, under every name that Stripe has for them (a
-- PaymentIntent and its charge): each pays for one record only.
CREATE TABLE chargeonce.adopted_payments (
    payment_id text PRIMARY KEY,
    customer_id text NOT NULL,
    billing_period text NOT NULL
);

ALTER TABLE chargeonce.records ADD COLUMN erased_at timestamptz;

-- Closes a record in which no money can move any more, so that no later attempt or delivery opens
-- it again.
CREATE FUNCTION chargeonce.close_record(
    p_customer_id text, p_billing_period text, p_code text, p_note jsonb,
    OUT closed boolean, OUT stored_row jsonb
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    stored chargeonce.records;
BEGIN
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = p_customer_id AND kept.billing_period = p_billing_period
    FOR UPDATE;
    closed := coalesce(stored.state IN ('declined', 'rejected', 'parked'), false);
    IF closed THEN
        -- Under the next fence, as whatever outdates an earlier holder.
        stored := chargeonce.end_record(stored, stored.fence - 1, 'canceled', NULL, p_code);
        PERFORM chargeonce.note(
            p_customer_id, p_billing_period, stored.attempt, stored.fence, 'canceled', p_note
        );
    END IF;
    closed := closed OR coalesce(stored.state = 'canceled', false);
    stored_row := CASE WHEN stored.customer_id IS NOT NULL THEN to_jsonb(stored) END;
END
$$;

-- Whether a payment pays for another record already.
CREATE FUNCTION chargeonce.pays_elsewhere(
    p_names text[], p_customer_id text, p_billing_period text
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM chargeonce.adopted_payments AS adopted
        WHERE adopted.payment_id = ANY (p_names)
          AND (adopted.customer_id, adopted.billing_period) <> (p_customer_id, p_billing_period)
    );
END
$$;

-- What a payment comes to that an operator says belongs to a record: as a found payment, unless it
-- contradicts what is known. Writes nothing.
CREATE FUNCTION chargeonce.judge_recording(
    stored chargeonce.records, payment chargeonce.records, p_finding text, p_names text[],
    p_only_new boolean
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    adoption text := chargeonce.judge_adoption(stored, payment, p_finding);
BEGIN
    IF chargeonce.pays_elsewhere(p_names, payment.customer_id, payment.billing_period) THEN
        RETURN 'pays_elsewhere';
    ELSIF stored.amount_cents <> payment.amount_cents
        OR stored.currency <> payment.currency
        OR stored.stripe_customer_id <> payment.stripe_customer_id
    THEN
        RETURN 'differs';
    ELSIF p_only_new AND adoption = 'brought_forward' THEN
        RETURN 'record_exists';
    END IF;
    RETURN adoption;
END
$$;

-- Records a payment that an operator says belongs to a record.
CREATE FUNCTION chargeonce.record_payment(
    p_found jsonb, p_finding text, p_names text[], p_only_new boolean, p_dry_run boolean,
    p_note jsonb, OUT recording text, OUT run_closed boolean, OUT stored_row jsonb
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    found_row chargeonce.records := jsonb_populate_record(NULL::chargeonce.records, p_found);
    stored chargeonce.records;
    adopted record;
BEGIN
    run_closed := false;
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = found_row.customer_id
      AND kept.billing_period = found_row.billing_period;
    recording := chargeonce.judge_recording(stored, found_row, p_finding, p_names, p_only_new);
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

-- Records that were refused and may be tried again, in the order of their customers.
CREATE FUNCTION chargeonce.failed_records(
    p_billing_period text, p_states text[], p_codes text[], p_after_customer_id text,
    p_limit integer
) RETURNS SETOF jsonb
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY
    SELECT to_jsonb(kept) FROM chargeonce.records AS kept
    WHERE kept.billing_period = p_billing_period
      AND kept.customer_id > p_after_customer_id
      AND kept.state = ANY (p_states)
      AND (p_codes IS NULL OR kept.code = ANY (p_codes))
    ORDER BY kept.customer_id
    LIMIT p_limit;
END
$$;
