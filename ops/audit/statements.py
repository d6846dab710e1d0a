"""The statements of the workbook: SQLite, and put together from constants alone."""

from __future__ import annotations

APPLICATION_ID = 0x43684F41
FORMAT = 1
TABLES = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE notes (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE payments (
    charge_id TEXT PRIMARY KEY,
    payment_id TEXT NOT NULL,
    stripe_customer_id TEXT NOT NULL,
    amount_cents INTEGER NOT NULL,
    currency TEXT NOT NULL,
    refunded_cents INTEGER NOT NULL,
    description TEXT NOT NULL,
    created INTEGER NOT NULL,
    marked_customer_id TEXT,
    marked_period TEXT,
    customer_id TEXT,
    billing_period TEXT,
    is_known INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX payments_of_case ON payments (billing_period, customer_id, created);
CREATE INDEX payments_alike
ON payments (stripe_customer_id, amount_cents, currency, description, created);
CREATE TABLE disputes (
    id TEXT PRIMARY KEY,
    charge_id TEXT NOT NULL,
    amount_cents INTEGER NOT NULL,
    status TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX disputes_of_charge ON disputes (charge_id, id);
CREATE TABLE records (
    billing_period TEXT NOT NULL,
    customer_id TEXT NOT NULL,
    stripe_customer_id TEXT NOT NULL,
    amount_cents INTEGER NOT NULL,
    currency TEXT NOT NULL,
    state TEXT NOT NULL,
    payment_id TEXT,
    held_cents INTEGER NOT NULL,
    is_leased INTEGER NOT NULL,
    started_at REAL NOT NULL,
    PRIMARY KEY (billing_period, customer_id)
) WITHOUT ROWID;
CREATE INDEX records_by_payment ON records (payment_id);
CREATE TABLE findings (kind TEXT NOT NULL, number INTEGER NOT NULL, finding TEXT NOT NULL);
CREATE INDEX findings_in_order ON findings (kind, number);
"""

_PAYMENT = """
    p.charge_id, p.payment_id, p.amount_cents, p.currency, p.stripe_customer_id, p.refunded_cents,
    p.description, p.created, p.marked_customer_id, p.marked_period
"""
_RECORD = """
    r.customer_id, r.billing_period, r.stripe_customer_id, r.amount_cents, r.currency, r.state,
    r.payment_id, r.held_cents, r.is_leased, r.started_at
"""

# A payment belongs to the record that names it, and else to the one that it is marked for.
MARKED = "UPDATE payments SET billing_period = marked_period, customer_id = marked_customer_id"

PAIR = """
UPDATE payments SET (billing_period, customer_id) = (
    SELECT r.billing_period, r.customer_id FROM records AS r
    WHERE r.payment_id IN (payments.payment_id, payments.charge_id)
    LIMIT 1
)
WHERE EXISTS (
    SELECT 1 FROM records AS r WHERE r.payment_id IN (payments.payment_id, payments.charge_id)
)
  AND NOT EXISTS (
    SELECT 1 FROM records AS r
    WHERE r.billing_period = payments.marked_period
      AND r.customer_id = payments.marked_customer_id
      AND r.payment_id IN (payments.payment_id, payments.charge_id)
)
"""

# A record may be without a payment unless its attempt began outside of what was read at Stripe.
CASES = f"""
SELECT {_RECORD}, {_PAYMENT}
FROM records AS r
LEFT JOIN payments AS p
    ON p.billing_period = r.billing_period AND p.customer_id = r.customer_id
WHERE p.charge_id IS NOT NULL OR r.started_at BETWEEN :since AND :until
ORDER BY r.billing_period, r.customer_id, p.created
"""

PAYMENTS_ALONE = f"""
SELECT p.customer_id, p.billing_period, {_PAYMENT}
FROM payments AS p
WHERE p.billing_period IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM records AS r
    WHERE r.billing_period = p.billing_period AND r.customer_id = p.customer_id
)
ORDER BY p.billing_period, p.customer_id, p.created
"""

ALIKE = f"""
SELECT p.billing_period IS NOT NULL OR p.is_known, {_PAYMENT}
FROM payments AS p
WHERE p.stripe_customer_id <> ''
  AND (p.stripe_customer_id, p.amount_cents, p.currency, p.description) IN (
    SELECT q.stripe_customer_id, q.amount_cents, q.currency, q.description
    FROM payments AS q
    WHERE q.billing_period IS NULL AND NOT q.is_known
)
ORDER BY p.stripe_customer_id, p.amount_cents, p.currency, p.description, p.created
"""

# Of those that look alike, the ones of which nothing is known.
UNKNOWN = """
SELECT p.charge_id, p.payment_id
FROM payments AS p
WHERE p.billing_period IS NULL
  AND p.stripe_customer_id <> ''
  AND EXISTS (
    SELECT 1 FROM payments AS q
    WHERE q.stripe_customer_id = p.stripe_customer_id
      AND q.amount_cents = p.amount_cents
      AND q.currency = p.currency
      AND q.description = p.description
      AND q.charge_id <> p.charge_id
)
"""

PERIODS = """
SELECT billing_period FROM records
UNION
SELECT billing_period FROM payments WHERE billing_period IS NOT NULL
ORDER BY billing_period
"""

DISPUTES_OF_CHARGE = """
SELECT id, charge_id, amount_cents, status FROM disputes WHERE charge_id = ? ORDER BY id
"""


KNOWN = "UPDATE payments SET is_known = 1 WHERE charge_id = ?"

ADD_PAYMENT = """
INSERT OR REPLACE INTO payments (
    charge_id, payment_id, stripe_customer_id, amount_cents, currency, refunded_cents, description,
    created, marked_customer_id, marked_period
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

ADD_DISPUTE = "INSERT OR REPLACE INTO disputes VALUES (?, ?, ?, ?)"

ADD_RECORD = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

ADD_FINDING = "INSERT INTO findings VALUES (?, ?, ?)"

ADD_NOTE = "INSERT OR REPLACE INTO notes VALUES (?, ?)"
