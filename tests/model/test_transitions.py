"""The table of transitions: the docs show it, the model uses it, and the real code keeps to it."""

from pathlib import Path

import pytest

from local.model.transitions import TRANSITIONS, Cause, after, allowed_moves, markdown
from local.simulation import simulate
from local.simulation.judge import Judge
from shared.record import Record, State

DOCS = Path(__file__).parents[2] / "docs" / "how-it-works.md"
SEEDS = range(1, 41)


def test_the_docs_show_the_table() -> None:
    """Goal: what people read is what the model check searches."""
    assert "\n".join(markdown()) in DOCS.read_text()


def test_nothing_leaves_charged() -> None:
    """Goal: a record that says charged says so for ever."""
    for cause in Cause:
        with pytest.raises(KeyError):
            after(State.CHARGED, cause)


def test_the_real_code_moves_records_as_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: in the simulation no record makes a move that the table does not hold."""
    seen: set[tuple[State | None, State | None]] = set()
    judge_record = Judge._judge_record

    def watch(judge: Judge, before: Record | None, record: Record) -> None:
        seen.add((before.state if before else None, record.state))
        judge_record(judge, before, record)

    monkeypatch.setattr(Judge, "_judge_record", watch)
    for seed in SEEDS:
        assert simulate(seed, None).violation is None
    allowed = allowed_moves() | {(state, state) for state in State}
    assert seen <= allowed
    assert len(seen) > len(TRANSITIONS) / 2
