-- Who runs a timer now. Both clouds' timers may fire at the same moment, and either may fire twice.

CREATE TABLE chargeonce.timers (
    name text PRIMARY KEY,
    lease_until timestamptz NOT NULL
);
