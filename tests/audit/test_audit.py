"""Goal: the audit finds what is wrong and nothing else, changes nothing, and never tells half."""

import csv
import json
import os
import shlex
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from local.stripe_simulator import (
    Fault,
    FaultKind,
    Match,
    Permission,
    RunningSimulator,
    SimulatorProcess,
)
from ops.__main__ import build_parser
from ops.audit.auditor import Auditor
from ops.audit.findings import FindingKind
from ops.audit.workbook import Workbook
from ops.exit_codes import ExitCode
from shared.errors import RecordsUnavailable
from shared.record import RecordId
from shared.store.books import PostgresBooks
from tests.audit.world import DAY_SECONDS, PERIOD, World, found, plant
from tests.cli.conftest import CommandLine

FILL = 500
MANY = 20_000
PEAK_KILOBYTES = 90_000
AUDIT = ("audit", "--period", PERIOD)
# The real command line, and how much memory it took at the most.
MEASURED = """
import sys
from pathlib import Path
from ops.__main__ import main
code = main(sys.argv[1:])
# Not ru_maxrss, which counts the parent before exec.
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(code)
"""


def test_exactly_the_planted_faults_are_found(world: World, deployed: CommandLine) -> None:
    expected = plant(world, lambda: world.fill(FILL))

    by_period = deployed(*AUDIT, "--json")
    by_time = deployed("audit", "--since", "2d", "--json")

    assert sum(expected.values()) == 25
    assert {kind for kind, _ in expected} == {kind.value for kind in FindingKind}
    assert found(by_period.document) == found(by_time.document) == expected
    assert by_period.code == by_time.code == ExitCode.FINDINGS
    assert by_period.document["counts"]["charged_twice"] == 2
    assert by_period.document["meanings"].keys() == by_period.document["counts"].keys()
    _assert_commands_exist(by_period.document["findings"])


def _assert_commands_exist(findings: list[dict[str, str]]) -> None:
    parser = build_parser()
    for finding in findings:
        program, *words = shlex.split(finding["command"])
        if program == "chargeonce":
            parser.parse_args(words)


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_twenty_thousand_payments_in_little_memory(migrated_database_url: str) -> None:
    with SimulatorProcess() as process:
        world = World(RunningSimulator(process.base_url, process.control), migrated_database_url)
        with closing(world):
            expected = plant(world, lambda: world.fill(MANY))
            environment = {
                **os.environ,
                "DATABASE_URL": migrated_database_url,
                "STRIPE_API_KEY": "rk_test_auditor",
                "STRIPE_API_BASE": process.base_url,
            }
            command = [sys.executable, "-c", MEASURED, *AUDIT, "--json"]
            ran = subprocess.run(command, env=environment, capture_output=True, check=False)

    document = json.loads(ran.stdout)
    assert ran.returncode == ExitCode.FINDINGS
    assert found(document) == expected
    assert document["payments_read"] > MANY
    assert int(ran.stderr) < PEAK_KILOBYTES


def test_agreement_is_told_with_zero(world: World, deployed: CommandLine) -> None:
    world.fill(3)

    ran = deployed(*AUDIT)
    document = deployed(*AUDIT, "--json").document

    assert ran.code == ExitCode.OK
    assert "Nothing was found" in ran.stdout
    assert (document["payments_read"], document["records_read"]) == (3, 3)
    assert (document["counts"], document["findings"]) == ({}, [])


def test_people_see_the_counts_the_meaning_and_the_first(
    world: World, deployed: CommandLine
) -> None:
    for number in range(3):
        world.refund(world.charged(f"customer_{number}"))

    ran = deployed(*AUDIT, "--first", "2")

    assert ran.code == ExitCode.FINDINGS
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert ["refunded", "3"] in lines
    assert FindingKind.REFUNDED.meaning in ran.stdout
    assert "chargeonce show --customer=customer_1 --period 2026-11" in ran.stdout
    assert "customer_2" not in ran.stdout
    assert "and 1 more" in ran.stdout


def test_a_csv_file_holds_every_finding(
    world: World, deployed: CommandLine, tmp_path: Path
) -> None:
    payment_id = world.charged("acme, inc")
    world.refund(payment_id)
    path = tmp_path / "findings.csv"

    deployed(*AUDIT, "--csv", str(path))

    with path.open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["kind"], row["customer_id"]) == ("refunded", "acme, inc")
    assert row["payment_ids"] == payment_id
    assert row["command"].startswith("chargeonce show")
    assert [each.name for each in tmp_path.iterdir()] == ["findings.csv"]


def test_nothing_is_changed(world: World, deployed: CommandLine) -> None:
    plant(world, lambda: world.fill(3))
    before = _everything(world)

    deployed(*AUDIT)

    assert _everything(world) == before


def _everything(world: World) -> object:
    """Every row and the transaction that wrote it, every request but GETs, and the money."""
    tables = world.execute(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
        " WHERE schemaname = 'chargeonce' ORDER BY 1"
    )
    rows = [
        world.execute(f"SELECT xmin::text, t::text FROM {table} AS t ORDER BY 1, 2")
        for (table,) in tables
    ]
    requests = world.control.statistics()["requests"]
    writes = [each for each in requests if not each["endpoint"].startswith("GET ")]
    return rows, writes, world.control.ledger()


def test_the_server_lets_the_audit_write_nothing(migrated_database_url: str) -> None:
    with closing(PostgresBooks(migrated_database_url)) as books:
        with pytest.raises(RecordsUnavailable, match="25006"):
            books._caller.run("DELETE FROM chargeonce.records RETURNING 1", [])
        # It still reads.
        assert books.line(RecordId("nobody", PERIOD)) is None


@pytest.mark.parametrize(
    ("path", "nth", "still_to_read"),
    [("/v1/charges", 1, 4), ("/v1/charges", 2, 3), ("/v1/charges", 3, 2), ("/v1/disputes", 1, 1)],
)
def test_an_audit_that_was_stopped_goes_on_and_finds_the_same(
    world: World, deployed: CommandLine, tmp_path: Path, path: str, nth: int, still_to_read: int
) -> None:
    """There are three pages of charges and one of disputes; one of them cannot be had at first."""
    expected = plant(world, lambda: world.fill(200))
    state, table = tmp_path / "audit.state", tmp_path / "findings.csv"
    command = (*AUDIT, "--resume", str(state), "--csv", str(table), "--json")
    world.control.add_fault(Fault(FaultKind.UNAUTHORIZED, Match("GET", path, nth=nth)))

    stopped = deployed(*command)
    mode = stat.S_IMODE(state.stat().st_mode)
    world.control.clear_faults()
    read_before = _pages_read(world)
    resumed = deployed(*command)

    assert stopped.code == ExitCode.STRIPE
    assert stopped.document.keys() == {"error"}
    assert mode == 0o600
    assert found(resumed.document) == expected
    assert _pages_read(world) - read_before == still_to_read
    assert [each.name for each in tmp_path.iterdir()] == ["findings.csv"]


def _pages_read(world: World) -> int:
    return sum(
        int(request["count"])
        for request in world.control.statistics()["requests"]
        if request["endpoint"] in ("GET /v1/charges", "GET /v1/disputes")
        and request["status"] == 200
    )


def test_stripe_failing_at_the_last_look_tells_nothing(
    world: World, deployed: CommandLine, tmp_path: Path
) -> None:
    """What was found before is not told either."""
    world.refund(world.charged("given_back"))
    world.record("no_such_payment", "pi_none")
    path = "/v1/payment_intents/pi_none"
    world.control.add_fault(Fault(FaultKind.UNAUTHORIZED, Match("GET", path)))

    told = deployed(*AUDIT, "--csv", str(tmp_path / "findings.csv"))

    assert told.code == ExitCode.STRIPE
    assert "pi_none" in told.stderr
    assert told.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_the_database_going_away_tells_nothing(
    world: World, deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise RecordsUnavailable("away")

    monkeypatch.setattr(PostgresBooks, "run_sums", away)
    world.refund(world.charged("given_back"))

    ran = deployed(*AUDIT, "--json")

    assert ran.code == ExitCode.DATABASE
    assert ran.document.keys() == {"error"}


def test_a_payment_that_is_finished_while_the_audit_runs(
    world: World, deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides were read when Stripe knew more than the records."""
    payment_id = world.pay_new("late")
    world.record("late", state="in_doubt", held_cents=5000)

    def finish() -> None:
        world.execute(
            "UPDATE chargeonce.records SET state = 'charged', held_cents = 0,"
            f" payment_id = '{payment_id}' WHERE customer_id = 'late'"
        )
        world.balance()

    before(monkeypatch, "_recognize", finish)

    assert deployed(*AUDIT).code == ExitCode.OK


def test_a_payment_that_is_made_while_the_audit_runs(
    world: World, deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in no list that was read, but its record is."""
    world.charged("early")
    world.control.advance_clock(60)

    def charge() -> None:
        world.record("new", world.pay_new("new"), age="-1 second")

    before(monkeypatch, "_read_records", charge)

    assert deployed(*AUDIT).code == ExitCode.OK
    assert not any(
        request["endpoint"] == "GET /v1/payment_intents/{id}"
        for request in world.control.statistics()["requests"]
    )


def before(monkeypatch: pytest.MonkeyPatch, step: str, action: Callable[[], None]) -> None:
    """Do something before a step of the audit."""
    usual = getattr(Auditor, step)

    def step_after_action(auditor: Auditor) -> None:
        action()
        usual(auditor)

    monkeypatch.setattr(Auditor, step, step_after_action)


def test_a_payment_older_than_what_was_read_is_found_by_its_id(
    world: World, deployed: CommandLine
) -> None:
    """As a record is that was imported today; what is wrong with such a payment is still told."""
    world.control.set_clock(datetime.now(UTC).timestamp() - 30 * DAY_SECONDS)
    for name in ("old", "old_and_given_back", "old_and_other", "old_and_disputed"):
        world.customers(name)
    world.record("old", world.pay("old"))
    world.refund(payment_id := world.pay("old_and_given_back"))
    world.record("old_and_given_back", payment_id)
    world.record("old_and_other", world.pay("old_and_other", amount=1234))
    world.record("old_and_disputed", disputed_id := world.pay("old_and_disputed"))
    world.control.set_clock(datetime.now(UTC).timestamp())
    world.dispute(disputed_id)

    ran = deployed("audit", "--since", "2d", "--json")

    assert found(ran.document) == Counter(
        {
            ("refunded", "old_and_given_back"): 1,
            ("amount_differs", "old_and_other"): 1,
            ("disputed", "old_and_disputed"): 1,
        }
    )


def test_a_record_that_began_before_what_is_compared_is_left_alone(
    world: World, deployed: CommandLine
) -> None:
    world.record("long_ago", "pi_none", age="3 days")

    assert deployed("audit", "--since", "2d").code == ExitCode.OK
    assert deployed("audit", "--since", "4d").code == ExitCode.FINDINGS


def test_payments_of_other_periods_are_none_of_a_period_s_business(
    world: World, deployed: CommandLine
) -> None:
    world.charged("acme")
    world.pay("acme", period="2026-10")

    assert deployed(*AUDIT).code == ExitCode.OK
    assert deployed("audit", "--since", "2d").code == ExitCode.FINDINGS


def test_a_period_that_nobody_knows(world: World, deployed: CommandLine) -> None:
    unknown = deployed("audit", "--period", "1999-01")

    assert unknown.code == ExitCode.FAILED
    assert "--since" in unknown.stderr
    assert deployed("audit", "--period", "1999-01", "--since", "1d").code == ExitCode.OK


def test_what_cannot_be_compared_is_refused(world: World, deployed: CommandLine) -> None:
    assert "--period, --since" in deployed("audit").stderr
    assert "future" in deployed("audit", "--since", "2999-01-01").stderr
    assert deployed("audit", "--since", "yesterday").code == ExitCode.USAGE


def test_the_other_account_or_mode_is_refused(world: World, deployed: CommandLine) -> None:
    """Everything would look lost."""
    world.charged("acme")
    world.execute("UPDATE chargeonce.cluster SET account_id = 'acct_other'")
    assert "another Stripe account" in deployed(*AUDIT).stderr
    world.execute("UPDATE chargeonce.cluster SET account_id = NULL, livemode = true")
    assert "other mode" in deployed(*AUDIT).stderr


def test_a_key_that_may_only_read_what_is_compared(
    world: World, deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.charged("acme")
    names = ("charges", "payment_intents", "disputes")
    world.control.register_key("rk_test_narrow", permissions=dict.fromkeys(names, Permission.READ))
    monkeypatch.setenv("STRIPE_API_KEY", "rk_test_narrow")

    assert deployed(*AUDIT).code == ExitCode.OK


def test_a_state_file_belongs_to_one_audit(
    world: World, deployed: CommandLine, tmp_path: Path
) -> None:
    state = tmp_path / "audit.state"
    world.charged("acme")
    world.control.add_fault(Fault(FaultKind.UNAUTHORIZED, Match("GET", "/v1/disputes")))
    deployed(*AUDIT, "--resume", str(state))

    other = deployed("audit", "--since", "2d", "--resume", str(state))
    with closing(Workbook(state)):
        in_use = deployed(*AUDIT, "--resume", str(state))
    letter, database = tmp_path / "letter", tmp_path / "database"
    letter.write_text("Dear Sir or Madam, " * 100)
    with closing(sqlite3.connect(database)) as foreign:
        foreign.execute("CREATE TABLE mine (a)")

    assert "another --period or --since" in other.stderr
    assert "in use" in in_use.stderr
    for path in (letter, database):
        ran = deployed(*AUDIT, "--resume", str(path))
        assert (ran.code, "no audit's file" in ran.stderr) == (ExitCode.FAILED, True)
        assert path.stat().st_size > 0
    assert "cannot be written" in deployed(*AUDIT, "--resume", "/proc/none").stderr
