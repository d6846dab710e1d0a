-- The spend-cap proxy: its keys, the payments that count against them, and every call.
--
-- A payment is locked first and its key last, and the key's row never across two round trips. What
-- moves money is counted before it is forwarded, in one statement; only proof takes it back.

CREATE TABLE chargeonce.vault_keys (
    key_id text PRIMARY KEY,
    secret_hash bytea NOT NULL,
    label text NOT NULL,
    allowed_endpoints text[] NOT NULL,
    daily_cap_cents bigint NOT NULL CHECK (daily_cap_cents > 0),
    total_cap_cents bigint CHECK (total_cap_cents > 0),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    held_cents bigint NOT NULL DEFAULT 0 CHECK (held_cents >= 0),
    spent_cents bigint NOT NULL DEFAULT 0 CHECK (spent_cents >= 0),
    -- The latest UTC day on which something was counted, and what was.
    day date NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'UTC')::date,
    day_cents bigint NOT NULL DEFAULT 0 CHECK (day_cents >= 0)
);

-- Every payment updates its key: room on the page keeps that off the indexes.
ALTER TABLE chargeonce.vault_keys SET (fillfactor = 10);

CREATE INDEX vault_keys_by_label ON chargeonce.vault_keys (label, created_at);

CREATE TABLE chargeonce.vault_payments (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key_id text NOT NULL REFERENCES chargeonce.vault_keys,
    payment_id text UNIQUE,
    request_key text UNIQUE,
    request_mark text,
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    state text NOT NULL DEFAULT 'known' CHECK (state IN ('known', 'held', 'spent', 'released')),
    held_cents bigint NOT NULL DEFAULT 0 CHECK (held_cents >= 0),
    held_day date,
    in_flight integer NOT NULL DEFAULT 0 CHECK (in_flight >= 0),
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz,
    CHECK (payment_id IS NOT NULL OR request_mark IS NOT NULL),
    CHECK ((held_cents > 0) = (state = 'held'))
);

COMMENT ON COLUMN chargeonce.vault_payments.request_key IS
    'The idempotency key of the request that makes the payment, until Stripe may have pruned it.';
COMMENT ON COLUMN chargeonce.vault_payments.request_mark IS
    'What the payment carries in its metadata, so that it can be found when its answer is lost.';

CREATE INDEX vault_payments_due ON chargeonce.vault_payments (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE chargeonce.vault_calls (
    call_id uuid PRIMARY KEY,
    called_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    key_id text NOT NULL REFERENCES chargeonce.vault_keys,
    endpoint text NOT NULL,
    amount_cents bigint,
    verdict text NOT NULL,
    payment_row bigint,
    effect text,
    status integer,
    request_id text,
    milliseconds integer
);

CREATE INDEX vault_calls_by_key ON chargeonce.vault_calls (key_id, called_at);

CREATE FUNCTION chargeonce.vault_today() RETURNS date
LANGUAGE sql VOLATILE AS $$
    SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date
$$;

-- Why a key may not be used; null if it may.
CREATE FUNCTION chargeonce.vault_judge_key(kept chargeonce.vault_keys) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE
        WHEN kept.key_id IS NULL THEN 'key_unknown'
        WHEN kept.revoked_at IS NOT NULL THEN 'key_revoked'
        WHEN kept.expires_at <= clock_timestamp() THEN 'key_expired'
    END;
END
$$;

-- Counts an amount against a key. The check is part of the update, so it is made again on the row
-- as the call before has left it. A clock that goes back does not empty the day.
CREATE FUNCTION chargeonce.vault_hold(
    p_key_id text, p_amount_cents bigint,
    OUT refusal text, OUT held_day date, OUT cap_cents bigint, OUT used_cents bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    kept chargeonce.vault_keys;
    used_today bigint;
BEGIN
    UPDATE chargeonce.vault_keys AS target
    SET held_cents = target.held_cents + p_amount_cents,
        day = greatest(target.day, chargeonce.vault_today()),
        day_cents = p_amount_cents
            + CASE WHEN target.day >= chargeonce.vault_today() THEN target.day_cents ELSE 0 END
    WHERE target.key_id = p_key_id
      AND target.revoked_at IS NULL
      AND target.expires_at > clock_timestamp()
      AND (
          target.total_cap_cents IS NULL
          OR target.held_cents + target.spent_cents + p_amount_cents <= target.total_cap_cents
      )
      AND p_amount_cents
          + CASE WHEN target.day >= chargeonce.vault_today() THEN target.day_cents ELSE 0 END
          <= target.daily_cap_cents
    RETURNING target.day INTO held_day;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO kept FROM chargeonce.vault_keys AS source WHERE source.key_id = p_key_id;
    refusal := chargeonce.vault_judge_key(kept);
    IF refusal IS NOT NULL THEN
        RETURN;
    END IF;
    used_cents := kept.held_cents + kept.spent_cents;
    cap_cents := kept.total_cap_cents;
    refusal := 'over_total_cap';
    IF cap_cents IS NULL OR used_cents + p_amount_cents <= cap_cents THEN
        used_today := CASE WHEN kept.day >= chargeonce.vault_today() THEN kept.day_cents ELSE 0 END;
        used_cents := used_today;
        cap_cents := kept.daily_cap_cents;
        refusal := 'over_daily_cap';
    END IF;
END
$$;

-- The payment that a call is about, locked: the one that its path names, else the one that its
-- idempotency key made not so long ago that Stripe may have forgotten it.
CREATE FUNCTION chargeonce.vault_open_payment(
    p_key_id text, p_payment_id text, p_request_key text, p_request_mark text,
    p_amount_cents bigint, p_replay_seconds double precision
) RETURNS chargeonce.vault_payments
LANGUAGE plpgsql AS $$
DECLARE
    payment chargeonce.vault_payments;
BEGIN
    INSERT INTO chargeonce.vault_payments (
        key_id, payment_id, request_key, request_mark, amount_cents
    )
    VALUES (p_key_id, p_payment_id, p_request_key, p_request_mark, p_amount_cents)
    ON CONFLICT DO NOTHING
    RETURNING * INTO payment;
    IF FOUND THEN
        RETURN payment;
    END IF;
    SELECT * INTO payment FROM chargeonce.vault_payments AS kept
    WHERE kept.payment_id = p_payment_id OR kept.request_key = p_request_key
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'payment vanished' USING ERRCODE = 'serialization_failure';
    END IF;
    IF p_request_key IS NOT NULL
        AND payment.opened_at < clock_timestamp() - make_interval(secs => p_replay_seconds)
    THEN
        -- Stripe may execute the request anew: what it did before is another payment.
        UPDATE chargeonce.vault_payments AS target
        SET request_key = NULL
        WHERE target.id = payment.id;
        INSERT INTO chargeonce.vault_payments (key_id, request_key, request_mark, amount_cents)
        VALUES (p_key_id, p_request_key, p_request_mark, p_amount_cents)
        RETURNING * INTO payment;
    END IF;
    RETURN payment;
END
$$;

-- Lets a call pass, counting what it may spend, or says why not.
CREATE FUNCTION chargeonce.vault_admit(
    p_call_id uuid, p_key_id text, p_endpoint text, p_payment_id text, p_request_key text,
    p_request_mark text, p_amount_cents bigint, p_replay_seconds double precision,
    OUT verdict text, OUT payment_row bigint, OUT cap_cents bigint, OUT used_cents bigint
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    kept chargeonce.vault_keys;
    payment chargeonce.vault_payments;
    hold record;
BEGIN
    SELECT made.verdict, made.payment_row INTO verdict, payment_row
    FROM chargeonce.vault_calls AS made WHERE made.call_id = p_call_id;
    IF FOUND THEN
        RETURN;
    END IF;
    verdict := 'admitted';
    IF p_amount_cents IS NULL THEN
        SELECT * INTO kept FROM chargeonce.vault_keys AS source WHERE source.key_id = p_key_id;
        verdict := coalesce(chargeonce.vault_judge_key(kept), verdict);
    ELSE
        payment := chargeonce.vault_open_payment(
            p_key_id, p_payment_id, p_request_key, p_request_mark, p_amount_cents,
            p_replay_seconds
        );
        payment_row := payment.id;
        IF payment.state IN ('held', 'spent') AND payment.amount_cents <> p_amount_cents THEN
            verdict := 'amount_changed';
        ELSIF payment.state = 'held' THEN
            UPDATE chargeonce.vault_payments AS target
            SET in_flight = target.in_flight + 1
            WHERE target.id = payment.id;
        ELSIF payment.state <> 'spent' THEN
            hold := chargeonce.vault_hold(p_key_id, p_amount_cents);
            verdict := coalesce(hold.refusal, verdict);
            cap_cents := hold.cap_cents;
            used_cents := hold.used_cents;
            IF hold.refusal IS NULL THEN
                UPDATE chargeonce.vault_payments AS target
                SET key_id = p_key_id,
                    state = 'held',
                    amount_cents = p_amount_cents,
                    held_cents = p_amount_cents,
                    held_day = hold.held_day,
                    in_flight = 1,
                    due_at = clock_timestamp() + interval '2 minutes'
                WHERE target.id = payment.id;
            ELSIF payment.payment_id IS NULL THEN
                DELETE FROM chargeonce.vault_payments AS target
                WHERE target.id = payment.id AND target.state = 'known';
            END IF;
        END IF;
    END IF;
    IF verdict <> 'key_unknown' THEN
        INSERT INTO chargeonce.vault_calls (
            call_id, key_id, endpoint, amount_cents, verdict, payment_row
        )
        VALUES (p_call_id, p_key_id, p_endpoint, p_amount_cents, verdict, payment_row);
    END IF;
END
$$;

-- Notes a call that was refused before it could be admitted.
CREATE FUNCTION chargeonce.vault_refuse(
    p_call_id uuid, p_key_id text, p_endpoint text, p_verdict text
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chargeonce.vault_calls (call_id, key_id, endpoint, verdict)
    VALUES (p_call_id, p_key_id, p_endpoint, p_verdict)
    ON CONFLICT DO NOTHING;
END
$$;

-- Ends a hold, and counts what was spent: proof of money counts even past the cap.
CREATE FUNCTION chargeonce.vault_move_money(
    payment chargeonce.vault_payments, p_state text, p_spent_cents bigint
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE chargeonce.vault_payments AS target
    SET state = p_state, held_cents = 0, due_at = NULL,
        amount_cents = CASE WHEN p_state = 'spent' THEN p_spent_cents ELSE target.amount_cents END
    WHERE target.id = payment.id;
    UPDATE chargeonce.vault_keys AS target
    SET held_cents = target.held_cents - payment.held_cents,
        spent_cents = target.spent_cents + p_spent_cents,
        -- Of another day, only what was not counted then counts now.
        day_cents = CASE
            WHEN target.day = payment.held_day OR p_spent_cents > payment.held_cents
                THEN greatest(target.day_cents + p_spent_cents - payment.held_cents, 0)
            ELSE target.day_cents
        END
    WHERE target.key_id = payment.key_id;
END
$$;

-- What a call, or a look at Stripe, proves about a payment:
--   known       a PaymentIntent exists that has moved no money
--   spent       the money moved
--   pending     it may still move
--   failed      this call moved none; another one of the same payment may
--   impossible  none moved, and none can
--   unknown     nothing is known
CREATE FUNCTION chargeonce.vault_settle(
    p_call_id uuid, p_payment_row bigint, p_payment_id text, p_key_id text, p_effect text,
    p_amount_cents bigint, p_status integer, p_request_id text, p_milliseconds integer
) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    payment chargeonce.vault_payments;
    is_call boolean := p_call_id IS NOT NULL;
BEGIN
    IF is_call THEN
        UPDATE chargeonce.vault_calls AS target
        SET effect = p_effect,
            status = p_status,
            request_id = p_request_id,
            milliseconds = p_milliseconds
        WHERE target.call_id = p_call_id AND target.effect IS NULL;
        IF NOT FOUND THEN
            RETURN; -- settled before: the answer was lost
        END IF;
    END IF;
    IF p_effect = 'known' THEN
        INSERT INTO chargeonce.vault_payments (key_id, payment_id, amount_cents)
        VALUES (p_key_id, p_payment_id, p_amount_cents)
        ON CONFLICT DO NOTHING;
        RETURN;
    END IF;
    SELECT * INTO payment FROM chargeonce.vault_payments AS kept
    WHERE kept.id = p_payment_row OR (p_payment_row IS NULL AND kept.payment_id = p_payment_id)
    FOR UPDATE;
    IF NOT FOUND OR p_effect IN ('none', 'unknown') THEN
        RETURN;
    END IF;
    IF is_call AND p_payment_row IS NOT NULL AND payment.state = 'held' THEN
        UPDATE chargeonce.vault_payments AS target
        SET in_flight = greatest(target.in_flight - 1, 0)
        WHERE target.id = payment.id
        RETURNING * INTO payment;
    END IF;
    IF payment.payment_id IS NULL AND p_payment_id IS NOT NULL THEN
        -- A replay of what an older request made: that counts it already.
        IF EXISTS (
            SELECT FROM chargeonce.vault_payments AS older WHERE older.payment_id = p_payment_id
        ) THEN
            IF payment.state = 'held' THEN
                PERFORM chargeonce.vault_move_money(payment, 'released', 0);
            END IF;
            RETURN;
        END IF;
        UPDATE chargeonce.vault_payments AS target
        SET payment_id = p_payment_id
        WHERE target.id = payment.id
        RETURNING * INTO payment;
    END IF;
    IF p_effect = 'spent' AND payment.state <> 'spent' THEN
        PERFORM chargeonce.vault_move_money(payment, 'spent', p_amount_cents);
    ELSIF payment.state = 'held'
        AND (p_effect = 'impossible' OR (p_effect = 'failed' AND payment.in_flight = 0))
    THEN
        PERFORM chargeonce.vault_move_money(payment, 'released', 0);
    END IF;
END
$$;

-- Holds that somebody should ask Stripe about, oldest first; each asker gets others.
CREATE FUNCTION chargeonce.vault_take_due(p_limit integer, p_pause_seconds double precision)
RETURNS TABLE (
    id bigint, payment_id text, request_mark text, amount_cents bigint, opened_at timestamptz,
    database_time timestamptz
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY
    UPDATE chargeonce.vault_payments AS target
    SET due_at = clock_timestamp() + make_interval(secs => p_pause_seconds)
    FROM (
        SELECT kept.id FROM chargeonce.vault_payments AS kept
        WHERE kept.due_at <= clock_timestamp()
        ORDER BY kept.due_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ) AS chosen
    WHERE target.id = chosen.id
    RETURNING target.id, target.payment_id, target.request_mark, target.amount_cents,
        target.opened_at, clock_timestamp();
END
$$;
