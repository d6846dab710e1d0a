"""`chargeonce import`: what an older system charged is charged by nobody again."""

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import stripe

from local.stripe_simulator import CustomerSeed, PaymentSeed, RunningSimulator
from ops.exit_codes import ExitCode
from shared.outcome import Outcome
from shared.record import RecordId, State
from shared.store.postgres import PostgresStore
from tests.cli.conftest import PERIOD, CommandLine, Ran, claim, doubt, end

CUSTOMERS = ("acme", "bolt", "cord")
HEADER = "customer_id,billing_period,amount_cents,stripe_customer_id,stripe_charge_id,status"
HOUR_SECONDS = 3600.0


class OlderConsumer:
    """What was there before: a charge for each message, under its own namespace, and a table."""

    def __init__(self, simulator: RunningSimulator) -> None:
        self._client = stripe.StripeClient(
            "sk_test_older", base_addresses={"api": simulator.base_url}, max_network_retries=0
        )
        self.rows: list[dict[str, str]] = []

    def bill(self, customer: str, amount_cents: int = 5000) -> str:
        """Charge a customer and write a row."""
        identity = f"{customer}:{PERIOD}:servicebus-billing"
        charge = self._client.v1.charges.create(
            {
                "amount": amount_cents,
                "currency": "usd",
                "customer": f"cus_{customer}",
                "metadata": {"customer_id": customer, "billing_period": PERIOD},
            },
            {"idempotency_key": hashlib.sha256(identity.encode()).hexdigest()[:32]},
        )
        row = [customer, PERIOD, str(amount_cents), f"cus_{customer}", charge.id, "charged"]
        self.rows.append(dict(zip(HEADER.split(","), row, strict=True)))
        return charge.id

    def csv(self, directory: Path, *lines: str) -> str:
        """Its table as a file, with some lines more."""
        file = directory / "billing_records.csv"
        rows = [",".join(row.values()) for row in self.rows]
        file.write_text("\n".join([HEADER, *rows, *lines]) + "\n")
        return str(file)


@pytest.fixture
def older(deployed: CommandLine, simulator: RunningSimulator) -> OlderConsumer:
    """The older consumer, and customers that pay by either flow."""
    ids = [f"cus_{customer}" for customer in CUSTOMERS]
    seed = CustomerSeed(ids=ids, payment_method="pm_card_visa", source="tok_visa")
    simulator.control.seed_customers(seed)
    return OlderConsumer(simulator)


def verdicts(ran: Ran) -> dict[str, int]:
    """How many rows came to what."""
    found: dict[str, int] = ran.document["verdicts"]
    return found


def charged(store: PostgresStore) -> int:
    """What the run has charged."""
    run = store.get_run(PERIOD)
    assert run is not None
    return run.charged_cents


@pytest.mark.parametrize(
    ("flow", "source"),
    [
        ("payment_intent", "csv"),
        ("payment_intent", "csv-verified"),
        ("payment_intent", "sql"),
        ("charge", "stripe"),
        pytest.param("payment_intent", "stripe", marks=pytest.mark.prove),
        pytest.param("charge", "csv", marks=pytest.mark.prove),
        pytest.param("charge", "csv-verified", marks=pytest.mark.prove),
        pytest.param("charge", "sql", marks=pytest.mark.prove),
    ],
)
def test_moving_over(
    deployed: CommandLine,
    older: OlderConsumer,
    deliver: Callable[..., Outcome],
    simulator: RunningSimulator,
    store: PostgresStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    flow: str,
) -> None:
    """Goal: charged 25 hours ago and an hour ago by the older consumer, and once in all.

    Method: after the import the same events come to this consumer, in either flow; the ledger of
    money that moved holds the older consumer's charges, and that of the customer it did not bill.
    """
    monkeypatch.setenv("STRIPE_FLOW", flow)
    older.bill("acme")
    simulator.control.advance_clock(24 * HOUR_SECONDS)
    older.bill("bolt")
    simulator.control.advance_clock(HOUR_SECONDS)
    options = {
        "csv": ("--csv", older.csv(tmp_path)),
        "csv-verified": ("--csv", older.csv(tmp_path), "--verify"),
        "sql": ("--sql", "SELECT * FROM older.billing_records", "--verify"),
        "stripe": ("--stripe-since", "2000-01-01"),
    }[source]
    if source == "sql":
        make_table(older, monkeypatch)
    planned = deployed("import", *options, "--dry-run", "--json")
    assert (planned.code, verdicts(planned)) == (ExitCode.OK, {"recorded": 2})
    assert charged(store) == 0
    ran = deployed("import", *options, "--json")
    assert (ran.code, verdicts(ran), ran.document["attention"]) == (
        ExitCode.OK,
        {"recorded": 2},
        [],
    )
    assert verdicts(deployed("import", *options, "--json")) == {"known": 2}
    assert charged(store) == 10_000
    for customer in CUSTOMERS:
        assert deliver(customer) is Outcome.CHARGED
        assert deliver(customer, attempt=2) is Outcome.CHARGED
    ledger = simulator.control.ledger()
    assert sorted(entry.customer or "" for entry in ledger) == ["cus_acme", "cus_bolt", "cus_cord"]
    assert simulator.control.ledger_summary().double_charges == []
    assert charged(store) == 15_000


def make_table(older: OlderConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older consumer's table, in a database of PostgreSQL."""
    database_url = os.environ["DATABASE_URL"]
    monkeypatch.setenv("IMPORT_DATABASE_URL", database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA older")
        connection.execute(
            """
            CREATE TABLE older.billing_records (
                customer_id text, billing_period text, amount_cents numeric(12, 2),
                stripe_customer_id text, stripe_charge_id text, status text
            )
            """
        )
        for row in older.rows:
            connection.execute(
                "INSERT INTO older.billing_records VALUES (%s, %s, %s, %s, %s, %s)",
                list(row.values()),
            )


def test_what_is_not_known_to_be_paid_is_imported_as_nothing(
    deployed: CommandLine, older: OlderConsumer, store: PostgresStore, tmp_path: Path
) -> None:
    """Goal: failed rows are fine; of unknown ones somebody must know."""
    older.bill("acme")
    lines = (
        f"bolt,{PERIOD},5000,cus_bolt,,failed",
        f"cord,{PERIOD},5000,cus_cord,,pending",
        f"dawn,{PERIOD},5000,cus_dawn,ch_1,",
    )
    ran = deployed("import", "--csv", older.csv(tmp_path, *lines), "--json")
    assert ran.code == ExitCode.FAILED
    assert verdicts(ran) == {"recorded": 1, "no_money": 1, "unknown_state": 2}
    assert [told["where"] for told in ran.document["attention"]] == ["line 4", "line 5"]
    shown = deployed("import", "--csv", older.csv(tmp_path, *lines))
    assert "unknown_state" in shown.stdout
    assert "bring it to an end at Stripe" in " ".join(shown.stdout.split())
    assert store.get_record(RecordId("cord", PERIOD)) is None


def test_nothing_is_imported_when_a_line_is_wrong(
    deployed: CommandLine, older: OlderConsumer, store: PostgresStore, tmp_path: Path
) -> None:
    older.bill("acme")
    lines = (
        f"bolt,{PERIOD},50.00,cus_bolt,ch_1,charged",
        f",{PERIOD},5000,cus_bolt,ch_1,charged",
        f"bolt,{PERIOD}:1,5000,cus_bolt,ch_1,charged",
        f"bolt,{PERIOD},5000,cus_bolt,,charged",
        f"bolt,{PERIOD},5000,,ch_1,charged",
        f"bolt,{PERIOD},5000,cus_bolt,tok_1,charged",
        f"bolt,{PERIOD},5000,cus_bolt,ch_1,charged,more",
    )
    ran = deployed("import", "--csv", older.csv(tmp_path, *lines), "--json")
    assert ran.code == ExitCode.FAILED
    message = ran.document["error"]["message"]
    assert [line.split(":")[:2] for line in message.splitlines()[1:]] == [
        ["  line 3", " amount"],
        ["  line 4", " customer_id"],
        ["  line 5", " billing_period"],
        ["  line 6", " payment"],
        ["  line 7", " stripe_customer_id"],
        ["  line 8", " payment"],
        ["  line 9", " has more values than the header has names"],
    ]
    assert store.get_record(RecordId("acme", PERIOD)) is None


def test_a_mere_word_changes_no_record_and_proof_does(
    deployed: CommandLine, older: OlderConsumer, store: PostgresStore, tmp_path: Path
) -> None:
    """Goal: without --verify what stands stays; with it, Stripe's word ends it."""
    for customer in CUSTOMERS:
        older.bill(customer)
    doubt(store, claim(store, "acme"))
    end(store, claim(store, "bolt"), State.DECLINED, "stolen_card")
    end(store, claim(store, "cord"), State.CHARGED)
    file = older.csv(tmp_path)
    ran = deployed("import", "--csv", file, "--json")
    assert (ran.code, verdicts(ran)) == (
        ExitCode.FAILED,
        {"record_exists": 2, "second_payment": 1},
    )
    states = [getattr(store.get_record(RecordId(each, PERIOD)), "state", "") for each in CUSTOMERS]
    assert states == ["in_doubt", "declined", "charged"]
    verified = deployed("import", "--csv", file, "--verify", "--json")
    assert verdicts(verified) == {"recorded": 2, "second_payment": 1}
    assert charged(store) == 15_000


def test_what_stripe_says_otherwise(
    deployed: CommandLine, older: OlderConsumer, store: PostgresStore, tmp_path: Path
) -> None:
    """Goal: with --verify, amount, customer and success are Stripe's; gaps are filled by it."""
    charge = older.bill("acme", 4900)
    older.rows.clear()
    lines = (
        f"acme,{PERIOD},5000,cus_acme,{charge},charged",
        f"acme,{PERIOD},4900,cus_bolt,{charge},charged",
        f"bolt,{PERIOD},4900,cus_bolt,ch_unknown,charged",
        f"acme,{PERIOD},,,{charge},whatever",
        f"bolt,{PERIOD},4900,,{charge},charged",
    )
    ran = deployed("import", "--csv", older.csv(tmp_path, *lines), "--verify", "--json")
    told = {each["where"]: each["verdict"] for each in ran.document["attention"]}
    assert told == {
        "line 2": "contradicted",
        "line 3": "contradicted",
        "line 4": "not_at_stripe",
        "line 6": "pays_elsewhere",
    }
    assert verdicts(ran)["recorded"] == 1
    record = store.get_record(RecordId("acme", PERIOD))
    assert record is not None
    assert record.fingerprint.amount_cents == 4900


def test_a_payment_that_a_table_knows_by_its_charge(
    deployed: CommandLine, simulator: RunningSimulator, older: OlderConsumer, tmp_path: Path
) -> None:
    """Goal: adopted or verified under its PaymentIntent's id, it is the same payment."""
    (payment,) = simulator.control.seed_payments([PaymentSeed("cus_acme", 5000)])
    row = f"acme,{PERIOD},5000,cus_acme,{payment.charge},charged"
    file = older.csv(tmp_path, row)
    assert verdicts(deployed("import", "--csv", file, "--json")) == {"recorded": 1}
    assert verdicts(deployed("import", "--csv", file, "--verify", "--json")) == {"known": 1}
    named = ("--customer", "acme", "--period", PERIOD)
    ran = deployed("adopt", "--payment", payment.payment_intent, *named, "--json")
    assert ran.document["verdict"] == "known"


def test_other_columns_and_standard_input(
    deployed: CommandLine,
    older: OlderConsumer,
    store: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    charge = older.bill("acme")
    text = f"\ufeffAccount;x,month,cents,cus,tx,state\nacme,{PERIOD},5000,cus_acme,{charge},PAID\n"
    mapped = ("customer=account;x", "period=month", "amount=cents", "stripe_customer=cus")
    options = [part for each in (*mapped, "payment=tx") for part in ("--map", each)]

    def run(*more: str) -> Ran:
        stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
        monkeypatch.setattr("sys.stdin", stdin)
        return deployed("import", "--csv", "-", "--json", *more)

    missing = run()
    assert missing.code == ExitCode.FAILED
    assert "no column customer_id for customer" in missing.document["error"]["message"]
    assert verdicts(run(*options)) == {"recorded": 1}
    wrong = run("--map", "nonsense=x")
    assert "--map nonsense=x" in wrong.document["error"]["message"]


def test_payments_of_others_in_stripes_list(
    deployed: CommandLine,
    older: OlderConsumer,
    deliver: Callable[..., Outcome],
    simulator: RunningSimulator,
) -> None:
    """Goal: what names nobody is counted and left; ours is known; other names can be given."""
    assert deliver("acme") is Outcome.CHARGED
    older.bill("bolt")
    since = ("--stripe-since", "2000-01-01")
    renamed = ("--map", "customer=tenant")
    ran = deployed("import", *since, *renamed, "--json")
    assert (ran.code, verdicts(ran)) == (ExitCode.OK, {"known": 1, "unnamed": 1})
    assert verdicts(deployed("import", *since, "--json")) == {"known": 1, "recorded": 1}


def test_wrong_command_lines(
    deployed: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert deployed("import").code == ExitCode.USAGE
    assert deployed("import", "--csv", str(tmp_path / "none.csv")).code == ExitCode.FAILED
    assert deployed("import", "--sql", "SELECT 1").code == ExitCode.SETTINGS
    monkeypatch.setenv("IMPORT_DATABASE_URL", os.environ["DATABASE_URL"])
    writing = "WITH gone AS (DELETE FROM chargeonce.runs RETURNING 1) SELECT * FROM gone"
    for query in (writing, "SELECT nothing"):
        assert deployed("import", "--sql", query).code == ExitCode.DATABASE
    assert deployed("run", "show", "--period", PERIOD).code == ExitCode.OK
    monkeypatch.setenv("IMPORT_DATABASE_URL", "postgresql://user:hunter2@127.0.0.1:1/none")
    away = deployed("import", "--sql", "SELECT 1", "--json")
    assert away.code == ExitCode.DATABASE
    assert "hunter2" not in away.stdout + away.stderr
    monkeypatch.setenv("IMPORT_DATABASE_URL", "host")
    assert "IMPORT_DATABASE_URL" in deployed("import", "--sql", "SELECT 1").stderr
    latin = tmp_path / "latin.csv"
    latin.write_bytes(HEADER.encode() + b"\n\xe9,2026-11,1,cus_1,ch_1,paid\n")
    assert "no UTF-8" in deployed("import", "--csv", str(latin)).stderr
    assert "--stripe-since" in deployed("import", "--help").stdout
