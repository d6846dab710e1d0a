"""What no emulator shows: rules over facts as they were observed."""

from __future__ import annotations

import pytest

from ops.doctor.examination import Unread, examine
from ops.doctor.facts import Database, Facts, Queue
from ops.doctor.rule import Severity
from ops.doctor.rules import RULES


def rules(facts: Facts) -> list[str]:
    """The names of the rules that find something."""
    return [finding.rule for finding in examine([facts]).findings]


@pytest.mark.parametrize("skew_seconds", [-90.0, 90.0])
def test_clocks_that_differ(skew_seconds: float) -> None:
    assert rules(Facts("desk", database=Database(clock_skew_seconds=skew_seconds))) == [
        "clocks_differ"
    ]
    assert rules(Facts("desk", database=Database(clock_skew_seconds=skew_seconds / 2))) == []


def test_a_server_that_does_not_write() -> None:
    database = Database(durability_off=("fsync", "full_page_writes"))
    assert rules(Facts("desk", database=database)) == ["commits_not_durable"] * 2


@pytest.mark.parametrize("mode", ["off", "local", "remote_write"])
def test_commits_that_are_answered_early(mode: str) -> None:
    assert rules(Facts("desk", database=Database(synchronous_commit=mode))) == [
        "commits_not_synchronous"
    ]


def test_nothing_observed_finds_nothing() -> None:
    """Goal: what nobody could say is no finding."""
    assert rules(Facts("desk")) == []


def test_rules_have_names_of_their_own_and_say_everything() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert all(rule.why.endswith(".") and rule.mend.endswith(".") for rule in RULES)


def test_errors_come_first() -> None:
    queue = Queue("usage", 300, 3, dead_letters_expired=False, detects_duplicates=True,
                  requires_session=False)  # fmt: skip
    found = [finding.severity for finding in examine([Facts("desk", queue=queue)]).findings]
    assert found == sorted(found, key=lambda severity: severity is Severity.WARNING)
    assert set(found) == set(Severity)


def test_what_an_emulator_lacks_makes_nothing_incomplete() -> None:
    assert examine([], [Unread("grants", "an emulator", matters=False)]).is_complete
    assert not examine([], [Unread("grants", "no right")]).is_complete
