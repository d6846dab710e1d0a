-- The vault key of each run. Whoever replaces it raises the generation first and stores only under
-- the generation that it raised, so that of any number who replace it at once one key is left.

CREATE TABLE chargeonce.run_keys (
    billing_period text PRIMARY KEY REFERENCES chargeonce.runs ON DELETE CASCADE,
    generation bigint NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    key_id text,
    sealed_key text,
    flows text[],
    run_cap_cents bigint,
    is_whole boolean,
    minted_at timestamptz,
    expires_at timestamptz,
    refused_at timestamptz,
    CHECK (
        sealed_key IS NULL
        OR (key_id, flows, run_cap_cents, is_whole, minted_at, expires_at) IS NOT NULL
    )
);

COMMENT ON COLUMN chargeonce.run_keys.sealed_key IS
    'The encrypted key; null from when its successor is begun until that is stored.';
COMMENT ON COLUMN chargeonce.run_keys.run_cap_cents IS 'The run''s cap when the key was minted.';
COMMENT ON COLUMN chargeonce.run_keys.is_whole IS
    'Nothing was held at the proxy when the key was minted: its cap is all that the run has left.';
COMMENT ON COLUMN chargeonce.run_keys.refused_at IS 'When the proxy first refused the key.';

-- The key that a claim of this verdict comes with. A function, so that the claim's own statement
-- names no other table: the tables are locked in the order in which the claim uses them.
CREATE FUNCTION chargeonce.claimed_key(
    p_verdict text, p_billing_period text,
    OUT key_id text, OUT sealed_key text, OUT is_whole boolean
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF p_verdict <> 'claimed' THEN
        RETURN;
    END IF;
    SELECT kept.key_id, kept.sealed_key, kept.is_whole AND kept.run_cap_cents = run.cap_cents
    INTO key_id, sealed_key, is_whole
    FROM chargeonce.run_keys AS kept
    JOIN chargeonce.runs AS run ON run.billing_period = kept.billing_period
    WHERE kept.billing_period = p_billing_period
      AND kept.sealed_key IS NOT NULL
      AND kept.expires_at > clock_timestamp();
END
$$;
