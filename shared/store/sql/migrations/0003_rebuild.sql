-- Finding back what the database has lost: after a failover or a restore its last commits may be
-- gone, and with them the records of charges that Stripe knows.

-- One row for each loss: what was noticed, and how far the reading of Stripe's lists has got.
CREATE TABLE chargeonce.rebuilds (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    history text NOT NULL,
    noticed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    since timestamptz NOT NULL,
    list text,
    cursor text,
    finished_at timestamptz
);

-- The fences above it are of the present history. A holder from before a loss may hold a number
-- that the database has lost and would give again; so numbers begin anew beyond all of those.
ALTER TABLE chargeonce.cluster ADD COLUMN fence_base bigint NOT NULL DEFAULT 0;

CREATE FUNCTION chargeonce.raise_fence() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    base bigint;
BEGIN
    SELECT known.fence_base INTO base FROM chargeonce.cluster AS known WHERE known.is_only_row;
    IF NEW.fence <= base THEN
        NEW.attempt_fence := CASE
            WHEN NEW.attempt_fence = NEW.fence THEN base + 1 ELSE NEW.attempt_fence
        END;
        NEW.fence := base + 1;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER fence_of_insert BEFORE INSERT ON chargeonce.records
FOR EACH ROW EXECUTE FUNCTION chargeonce.raise_fence();

CREATE TRIGGER fence_of_update BEFORE UPDATE OF fence ON chargeonce.records
FOR EACH ROW WHEN (NEW.fence > OLD.fence) EXECUTE FUNCTION chargeonce.raise_fence();

-- Which server this is, and which of its timelines.
CREATE FUNCTION chargeonce.present_history() RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT system_identifier || ':' || chargeonce.present_timeline() FROM pg_control_system()
$$;

-- A moment before which nothing is lost. Claims are granted by a whole database only, so whatever
-- was committed before the newest that is still here is here too. Other lines and the records may
-- be younger than the loss.
CREATE FUNCTION chargeonce.last_known_commit() RETURNS timestamptz
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    RETURN coalesce(
        (
            SELECT kept.noted_at FROM chargeonce.attempts AS kept
            WHERE kept.decision = 'claimed'
            ORDER BY kept.id DESC
            LIMIT 1
        ),
        (SELECT min(applied.applied_at) FROM chargeonce.migrations AS applied)
    );
END
$$;

-- Begins the rebuild of a suspended database, or goes on with the one that was begun. Told a
-- moment, it suspends the database first. Returns nothing when there is nothing to rebuild.
CREATE FUNCTION chargeonce.begin_rebuild(p_told_since timestamptz, p_margin_seconds double precision)
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
                least(p_told_since, chargeonce.last_known_commit())
                    - make_interval(secs => p_margin_seconds),
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

-- Every page before this place is adopted.
CREATE FUNCTION chargeonce.note_rebuild_place(
    p_id bigint, p_history text, p_list text, p_cursor text
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE chargeonce.rebuilds AS target
    SET list = p_list, cursor = p_cursor
    WHERE target.id = p_id AND target.history = p_history AND target.finished_at IS NULL;
END
$$;

-- Declares the history whole, provided that it is still the one that was rebuilt: not after another
-- failover, nor after another loss that was told meanwhile. (A server that lost commits may also
-- have given an id again, so the history is compared too.)
CREATE FUNCTION chargeonce.finish_rebuild(p_id bigint, p_history text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM chargeonce.cluster AS known WHERE known.is_only_row FOR UPDATE;
    UPDATE chargeonce.rebuilds AS target
    SET finished_at = clock_timestamp()
    WHERE target.id = p_id
      AND target.history = p_history
      AND target.history = chargeonce.present_history()
      AND target.finished_at IS NULL
      AND NOT EXISTS (SELECT FROM chargeonce.rebuilds AS later WHERE later.id > p_id);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE chargeonce.cluster AS known
    SET system_identifier = present.system_identifier,
        timeline = chargeonce.present_timeline(),
        fence_base = known.fence_base + 1000000
    FROM pg_control_system() AS present
    WHERE known.is_only_row;
    RETURN true;
END
$$;

-- What a payment found at Stripe means for a record; docs/rebuild.md has it as a table.
CREATE FUNCTION chargeonce.judge_adoption(
    stored chargeonce.records, found chargeonce.records, p_finding text
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    is_same boolean := stored.payment_id IS NOT DISTINCT FROM found.payment_id;
    differs boolean := stored.amount_cents <> found.amount_cents
        OR stored.currency <> found.currency
        OR stored.stripe_customer_id <> found.stripe_customer_id;
BEGIN
    IF stored.customer_id IS NULL THEN
        RETURN 'restored';
    ELSIF stored.state = 'charged' THEN
        RETURN CASE
            WHEN is_same THEN 'known'
            WHEN p_finding = 'charged' THEN 'second_payment'
            ELSE 'beside'
        END;
    ELSIF p_finding = 'charged' THEN
        RETURN 'brought_forward';
    ELSIF p_finding = 'unconfirmed' AND (differs OR stored.state = 'canceled') THEN
        RETURN 'beside';
    ELSIF found.attempt > stored.attempt THEN
        RETURN 'brought_forward';
    ELSIF stored.state NOT IN ('in_progress', 'in_doubt', 'processing') THEN
        RETURN CASE WHEN p_finding = 'processing' THEN 'brought_forward' ELSE 'beside' END;
    ELSIF is_same THEN
        RETURN CASE
            WHEN p_finding = 'unconfirmed' OR stored.state = 'processing' THEN 'known'
            ELSE 'brought_forward'
        END;
    END IF;
    RETURN CASE
        WHEN stored.payment_id IS NULL AND found.attempt = stored.attempt THEN 'brought_forward'
        ELSE 'beside'
    END;
END
$$;

-- Writes a found payment on a record that the caller has locked.
CREATE FUNCTION chargeonce.write_adoption(
    stored chargeonce.records, found chargeonce.records, p_finding text, p_is_restored boolean
) RETURNS chargeonce.records
LANGUAGE plpgsql AS $$
DECLARE
    left_beside boolean := stored.payment_id <> found.payment_id;
    opened_from chargeonce.records := stored;
BEGIN
    IF found.attempt > stored.attempt THEN
        -- As after a decline; a parked record would open the same attempt again.
        opened_from.state := 'declined';
        stored := chargeonce.open_attempt(
            opened_from, found.attempt, found.payment_method_id, found.flow,
            found.create_parameters, stored.held_cents, 0, NULL
        );
    END IF;
    IF p_finding <> 'unconfirmed' THEN
        stored := chargeonce.end_record(
            stored, stored.fence - 1, p_finding, found.payment_id, NULL
        );
    END IF;
    UPDATE chargeonce.records AS target
    SET payment_id = found.payment_id,
        state = CASE
            WHEN p_is_restored AND p_finding = 'unconfirmed' THEN 'in_doubt' ELSE target.state
        END,
        due_at = CASE
            WHEN p_is_restored AND p_finding = 'unconfirmed' THEN clock_timestamp()
            ELSE target.due_at
        END,
        create_in_doubt = target.create_in_doubt OR coalesce(left_beside, false),
        updated_at = clock_timestamp()
    WHERE target.customer_id = stored.customer_id
      AND target.billing_period = stored.billing_period
    RETURNING * INTO stored;
    RETURN stored;
END
$$;

-- Takes a record's amount back into its run's hold, even past the cap: the lost history had granted
-- it, and the money may move. Holds nothing where the run is lost; opening it counts the record in.
CREATE FUNCTION chargeonce.hold_again(stored chargeonce.records) RETURNS chargeonce.records
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE chargeonce.runs AS target
    SET held_cents = target.held_cents + stored.amount_cents
    WHERE target.billing_period = stored.billing_period AND target.currency = stored.currency;
    IF FOUND THEN
        UPDATE chargeonce.records AS target
        SET held_cents = target.amount_cents
        WHERE target.customer_id = stored.customer_id
          AND target.billing_period = stored.billing_period
        RETURNING * INTO stored;
    END IF;
    RETURN stored;
END
$$;

-- Notes that a payment lies beside the one that a record is about, for the sweep to look at.
CREATE FUNCTION chargeonce.mark_beside(stored chargeonce.records) RETURNS chargeonce.records
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE chargeonce.records AS target
    SET create_in_doubt = true, updated_at = clock_timestamp()
    WHERE target.customer_id = stored.customer_id
      AND target.billing_period = stored.billing_period
    RETURNING * INTO stored;
    RETURN stored;
END
$$;

-- Records a payment that was found at Stripe, as far as it proves anything.
CREATE FUNCTION chargeonce.adopt(
    p_found jsonb, p_finding text, p_dry_run boolean, p_note jsonb,
    OUT adoption text, OUT run_closed boolean, OUT stored_row jsonb
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    found_row chargeonce.records := jsonb_populate_record(NULL::chargeonce.records, p_found);
    stored chargeonce.records;
    held_before bigint;
    is_beside_anew boolean;
BEGIN
    run_closed := false;
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = found_row.customer_id
      AND kept.billing_period = found_row.billing_period;
    adoption := chargeonce.judge_adoption(stored, found_row, p_finding);
    stored_row := CASE WHEN stored.customer_id IS NOT NULL THEN to_jsonb(stored) END;
    IF adoption = 'known' OR p_dry_run THEN
        RETURN;
    END IF;
    -- What is to be written is locked first, and judged again as it is now.
    SELECT * INTO stored FROM chargeonce.records AS kept
    WHERE kept.customer_id = found_row.customer_id
      AND kept.billing_period = found_row.billing_period
    FOR UPDATE;
    IF NOT FOUND THEN
        stored := chargeonce.restore(p_found);
    END IF;
    -- Created in this transaction, unless somebody else's insert came first.
    adoption := CASE
        WHEN stored.created_at = now() THEN 'restored'
        ELSE chargeonce.judge_adoption(stored, found_row, p_finding)
    END;
    held_before := stored.held_cents;
    is_beside_anew := adoption = 'beside' AND NOT stored.create_in_doubt;
    IF adoption IN ('restored', 'brought_forward') THEN
        stored := chargeonce.write_adoption(stored, found_row, p_finding, adoption = 'restored');
    ELSIF is_beside_anew THEN
        stored := chargeonce.mark_beside(stored);
    END IF;
    IF is_beside_anew OR adoption IN ('restored', 'brought_forward', 'second_payment') THEN
        PERFORM chargeonce.note(
            stored.customer_id, stored.billing_period, stored.attempt, stored.fence, adoption,
            p_note
        );
    END IF;
    -- Last, because whoever else charges in this run waits for its row until the commit.
    IF adoption IN ('restored', 'brought_forward') THEN
        IF stored.held_cents = 0 AND stored.state IN ('in_progress', 'in_doubt', 'processing') THEN
            stored := chargeonce.hold_again(stored);
        ELSE
            run_closed := chargeonce.move_money(
                stored.billing_period, stored.currency, held_before - stored.held_cents,
                CASE WHEN stored.state = 'charged' THEN stored.amount_cents ELSE 0 END
            );
        END IF;
    END IF;
    stored_row := to_jsonb(stored);
END
$$;

-- Of no use for finding a record, as the other one; and none of its columns changes with a charge.
CREATE INDEX records_create_in_doubt
ON chargeonce.records (billing_period, customer_id) WHERE create_in_doubt;
