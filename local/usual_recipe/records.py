"""The table that the usual recipe looks into before it charges, and writes into afterwards."""

import psycopg

_CREATE = """
CREATE TABLE IF NOT EXISTS billing_records (
    customer_id text NOT NULL,
    billing_period text NOT NULL,
    charge_id text,
    amount_cents bigint NOT NULL,
    status text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (customer_id, billing_period)
)
"""

_FIND = "SELECT status FROM billing_records WHERE customer_id = %s AND billing_period = %s"

_WRITE = """
INSERT INTO billing_records (customer_id, billing_period, charge_id, amount_cents, status)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""

_COUNT = "SELECT count(*) FROM billing_records"


class BillingRecords:
    """The records in one database. Each call connects anew.

    Args:
        database_url: where they are.
    """

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    def create_table(self) -> None:
        """Make the table if it is not there."""
        with psycopg.connect(self._database_url) as connection:
            connection.execute(_CREATE)

    def status(self, customer_id: str, billing_period: str) -> str | None:
        """How a customer's period ended; None when nothing is written."""
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(_FIND, (customer_id, billing_period)).fetchone()
        return str(row[0]) if row else None

    def write(
        self,
        customer_id: str,
        billing_period: str,
        amount_cents: int,
        status: str,
        charge_id: str | None = None,
    ) -> None:
        """Write how it ended, unless something is written already."""
        values = (customer_id, billing_period, charge_id, amount_cents, status)
        with psycopg.connect(self._database_url) as connection:
            connection.execute(_WRITE, values)

    def count(self) -> int:
        """How many there are."""
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(_COUNT).fetchone()
        assert row is not None
        return int(row[0])
