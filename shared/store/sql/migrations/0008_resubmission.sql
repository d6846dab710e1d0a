-- Parked events that are delivered again from the table.

ALTER TABLE chargeonce.parked_events ADD COLUMN resubmitted_at timestamptz;

-- Hands a parked event over to reconcile, and says whether it was there.
CREATE FUNCTION chargeonce.resubmit_parked(
    p_id bigint, p_customer_id text, p_billing_period text, p_attempt integer
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    parked chargeonce.parked_events;
BEGIN
    UPDATE chargeonce.parked_events AS target
    SET resubmitted_at = clock_timestamp()
    WHERE target.id = p_id
    RETURNING * INTO parked;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM chargeonce.keep(
        p_customer_id, p_billing_period, p_attempt, parked.body,
        jsonb_build_object(
            'transport', parked.transport,
            'message_id', parked.message_id,
            'delivery_count', parked.delivery_count,
            'attributes', parked.attributes,
            'decision', 'resubmitted'
        )
    );
    RETURN true;
END
$$;
