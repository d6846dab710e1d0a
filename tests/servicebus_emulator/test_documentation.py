"""Goal: the page about the emulator names everything there is, and nothing else."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from local.servicebus_emulator import Fault, FaultKind, Match, SettlementKind, SettlementOutcome
from local.servicebus_emulator.control_api import ControlApi
from local.servicebus_emulator.emulator import ServiceBusEmulator
from local.servicebus_emulator.journal import RenewalOutcome
from local.servicebus_emulator.management import ManagementNode
from local.servicebus_emulator.running import Running
from tests.servicebus_emulator.peer import Desk

FOLDER = Path(__file__).resolve().parent
PAGE = (FOLDER.parents[1] / "docs/servicebus-emulator.md").read_text("utf-8")


def part(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_tests_of_the_tables_are_the_tests_that_there_are() -> None:
    source = (FOLDER / "test_operations.py").read_text("utf-8")
    existing = set(re.findall(r"^def (test_\w+)", source, re.MULTILINE))
    named = re.findall(r"`(test_[a-z_]+)`", part("What works") + part("What does not"))

    assert set(named) == existing


def test_every_row_of_what_works_has_a_test() -> None:
    rows = [line for line in part("What works").splitlines() if line.startswith("| ")][1:]

    assert rows
    assert [row for row in rows if "`test_" not in row] == []


def test_every_kind_of_fault_is_in_the_table() -> None:
    table = part("Faults").partition("\n| field")[0]
    documented = re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)

    assert documented == [kind.value for kind in FaultKind]


def test_every_kind_of_fault_has_a_test() -> None:
    source = (FOLDER / "test_faults.py").read_text("utf-8")

    assert [kind for kind in FaultKind if f"FaultKind.{kind.name}" not in source] == []


def test_every_field_of_a_fault_is_in_the_table() -> None:
    documented = set(re.findall(r"`((?:match\.)?[a-z_]+)`", part("Faults")))

    for field in fields(Fault):
        assert field.name in documented or field.name in ("kind", "match")
    for field in fields(Match):
        assert f"match.{field.name}" in documented


def test_every_operation_that_a_fault_can_name_is_there() -> None:
    desk = Desk()
    node = ManagementNode(desk.hub, desk.hub.broker.entity("billing"))

    for operation in (*node._operations, *(set(SettlementKind) - {SettlementKind.RELEASE})):
        assert f"`{operation}`" in part("Faults")


def test_every_word_of_a_record_is_there() -> None:
    for word in (*SettlementKind, *SettlementOutcome, *RenewalOutcome):
        assert f"`{word}`" in part("Records")


def test_every_control_call_is_in_the_table(emulator: ServiceBusEmulator) -> None:
    running: Running = emulator._require_running()
    api: ControlApi = running.api
    documented = re.findall(r"^\| `([A-Z]+) (/[a-z/]+)` \|", part("The control API"), re.MULTILINE)

    assert set(documented) == set(api._routes)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_example_runs() -> None:
    example = PAGE.partition("```python\n")[2].partition("```")[0]

    exec(compile(example, "docs/servicebus-emulator.md", "exec"), {})
