"""Goal: the mutants of `make mutants` are about the code as it is, and hunting can fail.

Method: every edit fits; a few are hunted, by seeds and by tests; what changes nothing gets away.
"""

import re
from dataclasses import replace

import pytest

from local.mutants.catalogue import MUTANTS
from local.mutants.hunting import ROOT, hunt
from local.mutants.mutant import EditDoesNotFit, Mutant

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
IN_THE_SUITE = ("declined without a cancel", "no fence at the end of a record")
LEAST_MUTANTS = 30


@pytest.mark.parametrize("mutant", MUTANTS, ids=BY_NAME)
def test_an_edit_fits_and_leaves_code(mutant: Mutant) -> None:
    source = (ROOT / mutant.path).read_text("utf-8")
    edited = mutant.edited(source)
    assert edited != source
    if mutant.path.endswith(".py"):
        compile(edited, mutant.path, "exec")


def test_each_takes_out_something_of_its_own() -> None:
    assert len(BY_NAME) == len(MUTANTS) >= LEAST_MUTANTS
    assert len({(mutant.path, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)


def test_an_edit_that_does_not_fit_is_told() -> None:
    mutant = replace(MUTANTS[0], before="this stands nowhere")
    with pytest.raises(EditDoesNotFit, match="0 times"):
        mutant.edited((ROOT / mutant.path).read_text("utf-8"))


@pytest.mark.parametrize("name", IN_THE_SUITE)
def test_some_are_hunted_in_the_suite(name: str) -> None:
    catch = hunt(BY_NAME[name])
    assert catch.caught_by is not None
    assert (catch.seeds is None) is bool(BY_NAME[name].tests)


@pytest.mark.parametrize("tests", [(), ("tests/core/test_key.py",)])
def test_what_is_sound_gets_away(tests: tuple[str, ...]) -> None:
    """Goal: a hunt finds nothing where nothing is wrong."""
    harmless = Mutant("nothing", "shared/key.py", "KEY_LENGTH = 32", "KEY_LENGTH = 16 * 2", tests)
    assert hunt(harmless, seeds=10).caught_by is None


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=BY_NAME)
def test_every_mutant_is_caught(mutant: Mutant) -> None:
    assert hunt(mutant).caught_by is not None


def test_the_page_tells_of_these_mutants() -> None:
    page = (ROOT / "docs" / "mutants.md").read_text("utf-8")
    for mutant in MUTANTS:
        assert f"| {mutant.name} | `{mutant.path}` |" in page
    total = re.search(r"(\d+) mutants, (\d+) caught: (\d+) by seeds, (\d+) by tests", page)
    assert total is not None
    count, caught, by_seeds, by_tests = total.groups()
    assert int(count) == int(caught) == len(MUTANTS)
    told = f"{caught} of {count} caught, {by_seeds} by seeds and {by_tests} by tests"
    assert told in (ROOT / "docs" / "proof.md").read_text("utf-8")
