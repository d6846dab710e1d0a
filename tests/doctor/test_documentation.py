"""The pages that are made from the code are the ones that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.scripts.reference import DOCS, PAGES
from ops.doctor.looking import examine_templates
from ops.doctor.numbers import NUMBERS
from ops.doctor.readers.azure_templates import read_azure_templates
from ops.doctor.readers.environment import read_defaults
from ops.doctor.readers.google_templates import read_google_templates

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_current(name: str) -> None:
    """Goal: after a change `make reference` is run."""
    assert (DOCS / name).read_text("utf-8") == PAGES[name]()


def test_every_number_is_read_where_the_table_says_that_it_is() -> None:
    """Goal: no place of the table is passed over because nobody reads it."""
    facts = [read_defaults(), *read_azure_templates(ROOT), *read_google_templates(ROOT)]
    read = {where for each in facts for where in each.numbers}
    assert {(place, name) for number in NUMBERS for place, name, _ in number.places} <= read


def test_what_is_not_there_is_told(tmp_path: Path, no_settings: None) -> None:
    examination = examine_templates(tmp_path)
    assert len(examination.unread) == 2
    assert not examination.is_complete
