"""A Stripe and a database that agree, and ways to make them disagree."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
import stripe

from local.stripe_simulator import CustomerSeed, DisputeOpening, PaymentSeed, RunningSimulator

PERIOD = "2026-11"
AMOUNT_CENTS = 5000
DAY_SECONDS = 86_400.0
SEEDS_PER_CALL = 5000

_INSERT = """
INSERT INTO chargeonce.records (
    customer_id, billing_period, key, stripe_customer_id, amount_cents, currency, attempt, state,
    fence, attempt_fence, flow, create_parameters, payment_id, held_cents, attempt_started_at,
    lease_until
)
VALUES (
    %(customer_id)s, %(billing_period)s, md5(%(customer_id)s), %(stripe_customer_id)s,
    %(amount_cents)s, %(currency)s, 1, %(state)s, 1, 1, 'payment_intent', '{}', %(payment_id)s,
    %(held_cents)s, now() - %(age)s::interval, now() - %(age)s::interval + %(lease)s::interval
)
"""

Found = Counter[tuple[str, str | None]]
"""How many findings there are of a kind about a customer (or a Stripe customer)."""


class World:
    """Both sides of an audit.

    Args:
        simulator: Stripe.
        database_url: a migrated database without records.
    """

    def __init__(self, simulator: RunningSimulator, database_url: str) -> None:
        self.simulator = simulator
        self.control = simulator.control
        self.stripe = stripe.StripeClient(
            "sk_test_world", base_addresses={"api": simulator.base_url}
        )
        self._connection = psycopg.connect(database_url, autocommit=True)
        self.execute(
            "INSERT INTO chargeonce.runs (billing_period, currency, expected_cents, cap_cents) "
            f"VALUES ('{PERIOD}', 'usd', 1, 1)"
        )

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Do something to the database by hand."""
        cursor = self._connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def customers(self, *names: str) -> None:
        """Make Stripe customers `cus_NAME`."""
        self.control.seed_customers(CustomerSeed(ids=[f"cus_{name}" for name in names]))

    def pay(self, name: str, **given: Any) -> str:
        """Let a customer pay what is marked for the period; return the PaymentIntent.

        Args:
            name: of the customer.
            given: `marked` False for a payment without metadata; `period`; fields of the payment.
        """
        mark = {"customer_id": name, "billing_period": given.pop("period", PERIOD)}
        metadata = mark if given.pop("marked", True) else {}
        fields = {"customer": f"cus_{name}", "amount": AMOUNT_CENTS, "metadata": metadata, **given}
        return self.control.seed_payments([PaymentSeed(**fields)])[0].payment_intent

    def pay_new(self, name: str, **given: Any) -> str:
        """Let a new customer pay; see `pay`."""
        self.customers(name)
        return self.pay(name, **given)

    def record(self, name: str, payment_id: str | None = None, **fields: Any) -> None:
        """Write a record, charged unless told otherwise."""
        self.records([self._row(name, payment_id, **fields)])

    def records(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write many records, and let the run say what they add up to."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(_INSERT, rows)
            cursor.execute("ANALYZE chargeonce.records")
        self.balance()

    def balance(self) -> None:
        """Let the run say what its records add up to."""
        self.execute(
            "UPDATE chargeonce.runs AS run SET held_cents = sums.held, charged_cents = sums.charged"
            " FROM (SELECT coalesce(sum(held_cents), 0) AS held,"
            " coalesce(sum(amount_cents) FILTER (WHERE state = 'charged'), 0) AS charged"
            f" FROM chargeonce.records WHERE billing_period = '{PERIOD}' AND currency = 'usd')"
            " AS sums"
        )

    def charged(self, name: str, **payment: Any) -> str:
        """A customer who paid once, with a record that says so."""
        self.customers(name)
        payment_id = self.pay(name, **payment)
        self.record(name, payment_id)
        return payment_id

    def fill(self, count: int) -> None:
        """Let so many customers pay once each, with records that say so."""
        names = [f"fill{number:06}" for number in range(count)]
        self.customers(*names)
        for start in range(0, count, SEEDS_PER_CALL):
            some = names[start : start + SEEDS_PER_CALL]
            seeds = [
                PaymentSeed(
                    f"cus_{name}",
                    AMOUNT_CENTS,
                    metadata={"customer_id": name, "billing_period": PERIOD},
                )
                for name in some
            ]
            made = self.control.seed_payments(seeds)
            self.records(
                [
                    self._row(name, payment.payment_intent)
                    for name, payment in zip(some, made, strict=True)
                ]
            )

    def allow_holds(self) -> None:
        """Take away what keeps finished records from holding money."""
        ((name,),) = self.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = 'chargeonce.records'::regclass"
            " AND pg_get_constraintdef(oid) LIKE '%held_cents = 0%'"
        )
        self.execute(f"ALTER TABLE chargeonce.records DROP CONSTRAINT {name}")

    def dispute(self, payment_id: str, **how: Any) -> None:
        """Let a customer dispute a payment."""
        self.control.open_dispute(DisputeOpening(payment_id, **how))

    def refund(self, payment_id: str, amount: int | None = None) -> None:
        """Give a payment back."""
        given = {"payment_intent": payment_id, **({"amount": amount} if amount else {})}
        self.stripe.v1.refunds.create(given)  # type: ignore[arg-type]

    def _row(self, name: str, payment_id: str | None = None, **fields: Any) -> dict[str, Any]:
        return {
            "customer_id": name,
            "billing_period": PERIOD,
            "stripe_customer_id": f"cus_{name}",
            "amount_cents": AMOUNT_CENTS,
            "currency": "usd",
            "state": "charged",
            "payment_id": payment_id,
            "held_cents": 0,
            "age": "1 hour",
            "lease": "0",
            **fields,
        }


def plant(world: World, fill: Callable[[], None]) -> Found:
    """Plant 25 faults of all kinds, and what looks like one and is none.

    Args:
        world: both sides.
        fill: makes payments in between, so that what belongs together lies far apart.

    Returns:
        What an audit has to find.
    """
    _plant_far_apart(world, fill)
    _plant_doubtful_states(world)
    _plant_differences(world)
    _plant_aftermath(world)
    _plant_decoys(world)
    world.allow_holds()
    world.record("holder", world.pay_new("holder"), held_cents=700)
    world.execute("UPDATE chargeonce.runs SET held_cents = held_cents + 1")
    return Counter(
        {
            ("charged_twice", "twice_far"): 1,
            ("charged_twice", "twice_near"): 1,
            ("charged_twice_suspected", "moved_over"): 1,
            ("charged_twice_suspected", "cus_older"): 1,
            ("paid_but_closed", "paid_declined"): 1,
            ("paid_but_closed", "paid_canceled"): 1,
            ("paid_but_closed", "paid_rejected"): 1,
            ("payment_without_record", "lost_1"): 1,
            ("payment_without_record", "lost_2"): 1,
            ("record_without_payment", "no_such_payment"): 1,
            ("record_without_payment", "canceled_payment"): 1,
            ("paid_but_unfinished", "paid_in_doubt"): 1,
            ("paid_but_unfinished", "paid_processing"): 1,
            ("marked_for_another", "wrong_mark"): 1,
            ("amount_differs", "paid_more"): 1,
            ("amount_differs", "paid_less"): 1,
            ("currency_differs", "paid_euros"): 1,
            ("stripe_customer_differs", "wrong_payer"): 1,
            ("held_though_final", "holder"): 1,
            ("run_sums_differ", None): 1,
            ("disputed", "disputed_all"): 1,
            ("disputed", "disputed_part"): 1,
            ("refunded", "given_back"): 1,
            ("refunded", "doubled_and_given_back"): 1,
            ("partly_refunded", "partly_given_back"): 1,
        }
    )


def _plant_far_apart(world: World, fill: Callable[[], None]) -> None:
    world.customers("twice_far", "moved_over", "older")
    first = world.pay("twice_far")
    world.pay("moved_over", marked=False)
    world.pay("older", marked=False, description="usage")
    fill()
    world.record("twice_far", first)
    world.pay("twice_far")
    world.record("moved_over", world.pay("moved_over"))
    world.pay("older", marked=False, description="usage")
    world.record("twice_near", world.pay_new("twice_near"))
    # The amount does not matter: it is the same period.
    world.pay("twice_near", amount=4900)


def _plant_doubtful_states(world: World) -> None:
    for state in ("declined", "canceled", "rejected"):
        world.record(f"paid_{state}", world.pay_new(f"paid_{state}"), state=state)
    for state in ("in_doubt", "processing"):
        # The record does not know of it.
        world.pay_new(f"paid_{state}")
        world.record(f"paid_{state}", state=state, held_cents=AMOUNT_CENTS)
    for name in ("lost_1", "lost_2"):
        world.pay_new(name)
    world.record("no_such_payment", "pi_none")
    world.customers("canceled_payment")
    intent = world.stripe.v1.payment_intents.create(
        {"amount": AMOUNT_CENTS, "currency": "usd", "customer": "cus_canceled_payment"}
    )
    world.stripe.v1.payment_intents.cancel(intent.id)
    world.record("canceled_payment", intent.id)


def _plant_differences(world: World) -> None:
    world.record("paid_more", world.pay_new("paid_more", amount=AMOUNT_CENTS + 1))
    world.record("paid_less", world.pay_new("paid_less", amount=AMOUNT_CENTS - 1))
    world.record("paid_euros", world.pay_new("paid_euros", currency="eur"))
    world.customers("wrong_payer", "payer", "wrong_mark")
    world.record("wrong_payer", world.pay("wrong_payer", customer="cus_payer"))
    mark = {"customer_id": "somebody", "billing_period": PERIOD}
    world.record("wrong_mark", world.pay("wrong_mark", metadata=mark))


def _plant_aftermath(world: World) -> None:
    world.dispute(world.charged("disputed_all"))
    world.dispute(world.charged("disputed_part"), amount=1000, status="lost")
    world.refund(world.charged("given_back"))
    world.refund(world.charged("partly_given_back"), 1000)
    world.charged("doubled_and_given_back")
    world.refund(world.pay("doubled_and_given_back"))


def _plant_decoys(world: World) -> None:
    """Nothing of this is a finding."""
    world.dispute(world.charged("dispute_won"), status="won")
    world.dispute(world.charged("inquiry_closed"), status="warning_closed")
    world.record("declined", state="declined")
    world.record("working", world.pay_new("working"), state="in_progress", lease="2 hours")
    world.record("begun", state="in_progress", held_cents=AMOUNT_CENTS)
    world.pay_new("shopper", marked=False)
    world.pay("shopper", marked=False, amount=777)
    world.pay("shopper", marked=False, description="something else")
    # An older consumer's payment that was imported, and this period's.
    world.customers("imported")
    world.record("imported", world.pay("imported", marked=False), billing_period="2026-10")
    world.record("imported", world.pay("imported"))
    world.customers("guest_like")
    _fail_to_pay(world, "guest_like")
    world.record("guest_like", world.pay("guest_like"))


def _fail_to_pay(world: World, name: str) -> None:
    """A payment is declined, and leaves a failed charge."""
    with suppress(stripe.CardError):
        world.stripe.v1.payment_intents.create(
            {
                "amount": AMOUNT_CENTS,
                "currency": "usd",
                "customer": f"cus_{name}",
                "payment_method": "pm_card_chargeDeclined",
                "confirm": True,
                "off_session": True,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                "metadata": {"customer_id": name, "billing_period": PERIOD},
            }
        )


def found(document: dict[str, Any]) -> Found:
    """What an audit reported."""
    return Counter(
        (finding["kind"], finding["customer_id"] or finding["stripe_customer_id"])
        for finding in document["findings"]
    )
