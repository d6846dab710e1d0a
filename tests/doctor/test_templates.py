"""Each mistake is planted in what is shipped, one edit a time, and found by its own rule."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ops.doctor.examination import Examination, examine
from ops.doctor.looking import examine_templates
from ops.doctor.readers.azure_templates import read_azure_templates
from ops.doctor.readers.google_templates import read_google_templates
from tests.doctor.mistakes import HOST, MAIN, PLANTED

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A copy of what is shipped."""
    shutil.copytree(ROOT / "infra", tmp_path / "infra")
    shutil.copy(ROOT / HOST, tmp_path)
    return tmp_path


def test_nothing_is_found_in_what_is_shipped(no_settings: None) -> None:
    examination = examine_templates(ROOT)
    assert examination.findings == []
    assert examination.unread == []
    assert len(examination.places) >= 9


@pytest.mark.parametrize(
    ("file", "shipped", "mistake", "rule"), PLANTED.values(), ids=PLANTED.keys()
)
def test_a_planted_mistake_is_found(
    templates: Path, file: str, shipped: str, mistake: str, rule: str
) -> None:
    """Goal: by its rule, with why and how to mend it."""
    path = templates / file
    text = path.read_text("utf-8")
    assert shipped in text
    path.write_text(text.replace(shipped, mistake, 1), "utf-8")
    found = {finding.rule: finding for finding in _examine(templates, file).findings}
    assert rule in found
    assert found[rule].why
    assert found[rule].mend


def test_nothing_is_found_behind_a_proxy(templates: Path) -> None:
    """Goal: the other way that the same templates can be deployed."""
    path = templates / MAIN
    text = path.read_text("utf-8")
    text = text.replace("vaultProvider string = 'ledger'", "vaultProvider string = 'proxy'")
    text = text.replace("vaultProxyUrl string = ''", "vaultProxyUrl string = 'https://proxy'")
    path.write_text(text, "utf-8")
    facts = list(read_azure_templates(templates))
    assert facts[0].settings is not None
    assert facts[0].settings.run_keys is not None
    assert examine(facts).findings == []


def _examine(root: Path, file: str) -> Examination:
    """What became of the cloud whose file it is."""
    read = read_google_templates if file.startswith("infra/gcp") else read_azure_templates
    return examine(read(root))
