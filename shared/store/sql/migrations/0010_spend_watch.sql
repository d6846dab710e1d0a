-- Which cap it was that somebody was told is nearly used up: another cap is told again.

ALTER TABLE chargeonce.runs ADD COLUMN near_cap_told_cents bigint;
