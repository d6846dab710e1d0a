"""The protocol, state by state: what must not be reached is reached only without a rule."""

import json

import pytest

from local import check_model
from local.model.checks import BROKEN, WHOLE, Check, run
from local.model.search import Step, search, stuck
from local.model.two_step import Scope, TwoStep


def _name(check: Check) -> str:
    return " without ".join((check.name, *(rule.name for rule in check.without)))


def _each(checks: tuple[Check, ...]) -> list[object]:
    return [
        pytest.param(check, marks=[pytest.mark.prove] if check.is_long else [], id=_name(check))
        for check in checks
    ]


@pytest.mark.parametrize("check", _each(tuple(WHOLE)))
def test_nothing_that_must_not_be_is_reached(check: Check) -> None:
    """Goal: no invariant breaks in any state, and every state leads to rest once faults stop."""
    checked = run(check)
    assert checked.broken is None
    assert checked.stuck_count == 0


@pytest.mark.parametrize("check", _each(tuple(BROKEN)))
def test_every_rule_is_needed(check: Check) -> None:
    """Goal: without the rule, the search finds the invariant broken that the rule is there for."""
    checked = run(check)
    assert checked.broken is not None
    assert checked.broken.invariant == check.breaks
    assert checked.broken.steps


def test_a_search_is_the_same_each_time() -> None:
    """Goal: the counts in the docs can be had again."""
    machine = TwoStep(Scope(late=0))
    counts = [
        (len(searched.worlds), searched.step_count)
        for searched in (search(machine.start, machine.steps, machine.invariants) for _ in range(2))
    ]
    assert counts[0] == counts[1]


def test_a_state_that_leads_nowhere_is_found() -> None:
    """Goal: the search for dead ends can fail."""

    def steps(world: int) -> list[Step[int]]:
        return {0: [Step("on", 1), Step("off", 2, is_fault=True)], 1: [], 2: []}[world]

    searched = search(0, steps, {})
    assert stuck(searched, steps, lambda world: world == 1) == {2}


def test_the_command_shows_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: people and scripts read the same, with the way to what goes wrong."""
    assert check_model.main(["--only", "spend", "--json", "--workers", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    searches = document["searches"]
    assert all(line["as_expected"] for line in searches)
    assert any(line["broken"] and line["trace"] for line in searches)
