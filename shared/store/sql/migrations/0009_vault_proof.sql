-- The vault's key is judged first, whatever its call is about; and a hold ends by proof alone:
--   a call that moved no money says nothing about what an earlier one began,
--   and a look at Stripe says nothing about a call that was sent after it.

ALTER TABLE chargeonce.vault_payments
    ADD COLUMN sent_at timestamptz NOT NULL DEFAULT clock_timestamp();

COMMENT ON COLUMN chargeonce.vault_payments.sent_at IS
    'When a call about the payment was last let pass.';
COMMENT ON COLUMN chargeonce.vault_payments.in_flight IS
    'Calls that were let pass and may yet move the money: only those that failed are taken off.';

-- Lets a call pass, counting what it may spend, or says why not.
CREATE OR REPLACE FUNCTION chargeonce.vault_admit(
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
    SELECT * INTO kept FROM chargeonce.vault_keys AS source WHERE source.key_id = p_key_id;
    verdict := coalesce(chargeonce.vault_judge_key(kept), 'admitted');
    IF verdict = 'admitted' AND p_amount_cents IS NOT NULL THEN
        payment := chargeonce.vault_open_payment(
            p_key_id, p_payment_id, p_request_key, p_request_mark, p_amount_cents,
            p_replay_seconds
        );
        payment_row := payment.id;
        IF payment.state IN ('held', 'spent') AND payment.amount_cents <> p_amount_cents THEN
            verdict := 'amount_changed';
        ELSIF payment.state = 'held' THEN
            UPDATE chargeonce.vault_payments AS target
            SET in_flight = target.in_flight + 1, sent_at = clock_timestamp()
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
                    sent_at = clock_timestamp(),
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

-- What a call proves about a payment:
--   known       a PaymentIntent exists that has moved no money
--   spent       the money moved
--   pending     it may still move
--   failed      this call moved none; another one of the same payment may
--   impossible  none moved, and none can
--   unknown     nothing is known
CREATE OR REPLACE FUNCTION chargeonce.vault_settle(
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
    IF is_call AND p_effect = 'failed' AND payment.state = 'held' THEN
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

-- What a look at Stripe proves about a hold; see vault_settle for the effects. A payment that has
-- failed is given back when every call about it was sent so long ago that none can still arrive.
CREATE FUNCTION chargeonce.vault_conclude(
    p_payment_row bigint, p_looked_at timestamptz, p_payment_id text, p_effect text,
    p_amount_cents bigint, p_gone_seconds double precision
) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    effect text := p_effect;
    last_sent_at timestamptz;
BEGIN
    SELECT kept.sent_at INTO last_sent_at FROM chargeonce.vault_payments AS kept
    WHERE kept.id = p_payment_row
    FOR UPDATE;
    IF effect = 'failed' THEN
        IF last_sent_at > p_looked_at - make_interval(secs => p_gone_seconds) THEN
            effect := 'pending';
        ELSE
            effect := 'impossible';
        END IF;
    END IF;
    PERFORM chargeonce.vault_settle(
        NULL, p_payment_row, p_payment_id, '', effect, p_amount_cents, NULL, NULL, NULL
    );
END
$$;
