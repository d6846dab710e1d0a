"""Goal: the page about the simulator names everything there is, and nothing else."""

import re
from pathlib import Path

from local.stripe_simulator import FaultKind
from local.stripe_simulator.control import Control
from local.stripe_simulator.routes import ROUTES
from local.stripe_simulator.server import SimulatorServer
from tests.stripe_simulator.support import Desk

PAGE = (Path(__file__).resolve().parents[2] / "docs/stripe-simulator.md").read_text("utf-8")


def test_every_control_call_is_in_the_table(desk: Desk) -> None:
    control = Control(desk.model, desk.clock, SimulatorServer(desk.model, desk.clock))
    documented = set(re.findall(r"^\| `([A-Z]+) /_control/([a-z/]+)`", PAGE, re.MULTILINE))

    assert documented == set(control.calls)


def test_every_kind_of_fault_is_in_the_table() -> None:
    table = PAGE.partition("## Faults")[2].partition("\n\n| field")[0]
    documented = re.findall(r"^\| `([a-z_0-9]+)` \|", table, re.MULTILINE)

    assert documented == [kind.value for kind in FaultKind]


def test_every_resource_is_in_the_table() -> None:
    table = PAGE.partition("## The API")[2].partition("\n\n`expand`")[0]
    documented = set(re.findall(r"^\| `(/v1/[a-z_]+)`", table, re.MULTILINE))

    assert documented == {"/".join(route.template.split("/")[:3]) for route in ROUTES}


def test_the_example_for_tests_runs() -> None:
    example = PAGE.partition("```python\n")[2].partition("```")[0]

    exec(compile(example, "docs/stripe-simulator.md", "exec"), {})
