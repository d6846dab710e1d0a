"""`chargeonce demo`: what it says and ends with. The demo itself is tested elsewhere."""

from dataclasses import replace
from pathlib import Path

import pytest

from local import demo
from local.demo import Books, CloudBooks, DemoFailed, DemoPlan, VaultBooks
from local.demo.plan import Cloud
from local.demo.screen import Screen
from ops.exit_codes import ExitCode
from tests.cli.conftest import CommandLine

BOOKS = Books(
    seed=5,
    delivery="a small pusher of our own",
    customers=300,
    customers_on_both_clouds=60,
    events_published=485,
    invalid_events=6,
    deliveries=560,
    charged=278,
    declined=17,
    parked=5,
    duplicates_prevented=200,
    in_doubt_resolved=21,
    double_charges=0,
    lost_events=0,
    charged_cents=3_500_050,
    cap_cents=4_000_000,
    killed_processes=2,
    charges_cut_short=4,
    function_app=True,
    clouds={
        Cloud.PUBSUB: CloudBooks(
            published=250,
            deliveries=300,
            redeliveries=30,
            met_another_holder=5,
            duplicates_prevented=110,
            leases_not_extended=None,
            leases_run_out=None,
            dead_letters=9,
            killed_processes=1,
        ),
        Cloud.SERVICE_BUS: CloudBooks(
            published=235,
            deliveries=260,
            redeliveries=25,
            met_another_holder=7,
            duplicates_prevented=90,
            leases_not_extended=31,
            leases_run_out=1_017,
            dead_letters=8,
            killed_processes=1,
        ),
    },
    vault=VaultBooks(
        cap_cents=60_000,
        asked_cents=121_588,
        charged_cents=59_992,
        largest_cents=3_877,
        refused_by_cap=26,
        charges_before_revocation=37,
        charges_after_revocation=0,
        refused_after_revocation=6,
    ),
    seconds=51.2,
    promises_broken=[],
    log_directory=None,
)
BROKEN = replace(
    BOOKS,
    double_charges=1,
    promises_broken=[f"customer-{number} was charged 2 times" for number in range(12)],
    log_directory=Path("/tmp/logs"),
)


def let_it_come_to(
    monkeypatch: pytest.MonkeyPatch, result: Books | Exception, plans: list[DemoPlan] | None = None
) -> None:
    """Play nothing, and come to this result."""

    def play(plan: DemoPlan, screen: Screen) -> Books:
        screen.say("Ready.")
        if plans is not None:
            plans.append(plan)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(demo, "play", play)


def test_the_table_ends_in_the_double_charges(
    without_database: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_it_come_to(monkeypatch, BOOKS)
    ran = without_database("demo")
    assert ran.code == ExitCode.OK
    assert "35,000.50 USD" in ran.stdout
    (run_out,) = [line for line in ran.stdout.splitlines() if "run out" in line]
    assert run_out.split()[-2:] == ["-", "1,017"]
    (capped,) = [line for line in ran.stdout.splitlines() if "vault key of 600.00 USD" in line]
    assert capped.split()[-2:] == ["599.92", "USD"]
    last_line = ran.stdout.strip().splitlines()[-1].split()
    assert last_line == ["double", "charges", "(by", "the", "simulator's", "ledger):", "0"]


def test_json(without_database: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[DemoPlan] = []
    let_it_come_to(monkeypatch, BOOKS, plans)
    options = ("--seed", "5", "--customers", "50", "--delivery", "pusher")
    ran = without_database("demo", *options, "--json")
    assert ran.code == ExitCode.OK
    assert ran.document == BOOKS.document()
    assert ran.stderr == ""
    assert plans == [DemoPlan(5, 50, "pusher")]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_broken_promise(
    without_database: CommandLine, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    let_it_come_to(monkeypatch, BROKEN)
    ran = without_database("demo", *options)
    assert ran.code == ExitCode.FAILED
    assert "customer-0 was charged 2 times" in ran.stdout
    assert "/tmp/logs" in ran.stdout


def test_many_broken_promises_are_not_all_listed(
    without_database: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_it_come_to(monkeypatch, BROKEN)
    ran = without_database("demo")
    assert "customer-9 " in ran.stdout
    assert "customer-10 " not in ran.stdout
    assert "and 2 more" in ran.stdout


def test_a_demo_that_breaks_off(
    without_database: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_it_come_to(monkeypatch, DemoFailed("the demo broke off: no room\nIts logs are in /tmp/x"))
    ran = without_database("demo", "--json")
    assert ran.code == ExitCode.FAILED
    assert "no room" in ran.document["error"]["message"]
    assert "Its logs are in /tmp/x" in ran.stderr


@pytest.mark.parametrize("options", ["--customers 19", "--customers 5001", "--seed 0", "--seed x"])
def test_numbers_out_of_range(without_database: CommandLine, options: str) -> None:
    assert without_database("demo", *options.split()).code == ExitCode.USAGE
