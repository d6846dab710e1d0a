-- Messages that the broker was about to give up on and that are ours to deliver since, and how
-- reconcilers share the work.
--
-- Whoever takes a record or a kept message pushes the moment at which it is due again, in the same
-- statement. So no two have it at once, and one that dies takes nothing with it.

CREATE TABLE chargeonce.kept_messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kept_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz NOT NULL DEFAULT clock_timestamp() + interval '1 minute',
    looks integer NOT NULL DEFAULT 0,
    customer_id text NOT NULL,
    billing_period text NOT NULL,
    attempt integer NOT NULL,
    body bytea NOT NULL,
    transport text NOT NULL,
    message_id text NOT NULL,
    delivery_count integer,
    attributes jsonb NOT NULL
);

-- A message whose settlement failed comes again; it is kept once.
CREATE UNIQUE INDEX kept_messages_once
ON chargeonce.kept_messages (transport, message_id, sha256(body));

CREATE INDEX kept_messages_due ON chargeonce.kept_messages (due_at);

CREATE INDEX kept_messages_by_period ON chargeonce.kept_messages (billing_period);

-- How often reconcile has taken a record up since its attempt began.
ALTER TABLE chargeonce.records
    ADD COLUMN looks integer NOT NULL DEFAULT 0,
    ADD COLUMN looks_fence bigint NOT NULL DEFAULT 0;

-- How long what reconcile takes up is to rest: minutes at first, then an hour, then a day; never
-- less than the lease under which it is worked on.
CREATE FUNCTION chargeonce.reconcile_pause(
    p_looks integer, p_lease_seconds double precision
) RETURNS interval
LANGUAGE plpgsql AS $$
BEGIN
    RETURN greatest(
        make_interval(secs => p_lease_seconds),
        CASE
            WHEN p_looks <= 6 THEN interval '5 minutes'
            WHEN p_looks <= 30 THEN interval '1 hour'
            ELSE interval '24 hours'
        END
    );
END
$$;

CREATE FUNCTION chargeonce.take_due(
    p_lease_seconds double precision, OUT stored_row jsonb, OUT age_seconds double precision
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    taken chargeonce.records;
    looked integer;
BEGIN
    IF chargeonce.is_suspended() THEN
        RETURN;
    END IF;
    SELECT * INTO taken FROM chargeonce.records AS kept
    WHERE kept.state IN ('in_progress', 'in_doubt', 'processing')
      -- now() and not clock_timestamp(), which no index can be searched by.
      AND kept.due_at <= now()
      AND kept.lease_until <= now()
    ORDER BY kept.due_at, kept.customer_id, kept.billing_period
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    looked := CASE WHEN taken.looks_fence = taken.attempt_fence THEN taken.looks ELSE 0 END + 1;
    UPDATE chargeonce.records AS target
    SET looks = looked,
        looks_fence = target.attempt_fence,
        due_at = clock_timestamp() + chargeonce.reconcile_pause(looked, p_lease_seconds)
    WHERE target.customer_id = taken.customer_id
      AND target.billing_period = taken.billing_period;
    stored_row := to_jsonb(taken);
    age_seconds := extract(epoch FROM clock_timestamp() - taken.attempt_started_at);
END
$$;

CREATE FUNCTION chargeonce.keep(
    p_customer_id text, p_billing_period text, p_attempt integer, p_body bytea, p_note jsonb
) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO chargeonce.kept_messages (
        customer_id, billing_period, attempt, body, transport, message_id, delivery_count,
        attributes
    )
    VALUES (
        p_customer_id, p_billing_period, p_attempt, p_body, p_note ->> 'transport',
        p_note ->> 'message_id', (p_note ->> 'delivery_count')::integer, p_note -> 'attributes'
    )
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        PERFORM chargeonce.note(
            p_customer_id, p_billing_period, NULL, NULL, p_note ->> 'decision', p_note
        );
    END IF;
END
$$;

CREATE FUNCTION chargeonce.take_kept(
    p_lease_seconds double precision,
    OUT kept_row jsonb, OUT kept_body bytea, OUT age_seconds double precision
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    taken chargeonce.kept_messages;
BEGIN
    IF chargeonce.is_suspended() THEN
        RETURN;
    END IF;
    SELECT * INTO taken FROM chargeonce.kept_messages AS kept
    WHERE kept.due_at <= now()
    ORDER BY kept.due_at, kept.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE chargeonce.kept_messages AS target
    SET looks = taken.looks + 1,
        due_at = clock_timestamp()
            + chargeonce.reconcile_pause(taken.looks + 1, p_lease_seconds)
    WHERE target.id = taken.id;
    kept_row := to_jsonb(taken) - 'body';
    kept_body := taken.body;
    age_seconds := extract(epoch FROM clock_timestamp() - taken.kept_at);
END
$$;

CREATE FUNCTION chargeonce.drop_kept(p_id bigint) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM chargeonce.kept_messages AS target WHERE target.id = p_id;
END
$$;

-- What waits for a run, or for room in it, need not wait any longer.
CREATE FUNCTION chargeonce.hasten_kept() RETURNS trigger
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE chargeonce.kept_messages AS target
    SET due_at = now(), looks = 0
    WHERE target.billing_period = NEW.billing_period;
    RETURN NULL;
END
$$;

CREATE TRIGGER hasten_kept AFTER INSERT OR UPDATE OF cap_cents, is_open ON chargeonce.runs
FOR EACH ROW WHEN (NEW.is_open) EXECUTE FUNCTION chargeonce.hasten_kept();

-- As before, but what reconcile lets rest for longer stays at rest.
CREATE OR REPLACE FUNCTION chargeonce.end_record(
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
        due_at = CASE
            WHEN is_processing
            THEN greatest(target.due_at, clock_timestamp() + interval '1 hour')
        END,
        updated_at = clock_timestamp()
    WHERE target.customer_id = stored.customer_id
      AND target.billing_period = stored.billing_period
    RETURNING * INTO stored;
    RETURN stored;
END
$$;

-- As before, but what reconcile lets rest for longer stays at rest.
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
            WHEN p_due_in_seconds IS NOT NULL
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
