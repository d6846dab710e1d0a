"""Goal: what the pages say to do can be done, and what they name is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ops.__main__ import build_parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
TEXTS = {page.name: page.read_text("utf-8") for page in PAGES}
_FENCED = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
_CODE = re.compile(r"`(chargeonce [^`]+)`")
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def commands_of(name: str) -> list[str]:
    """The commands that a page shows; elsewhere than in the runbook its sentences name some only
    in part.
    """
    lines = [line for block in _FENCED.findall(TEXTS[name]) for line in block.splitlines()]
    shown = [line.strip().removeprefix("$ ").partition(" #")[0].strip() for line in lines]
    in_sentences = _CODE.findall(TEXTS[name]) if name == "runbook.md" else []
    return [line for line in shown + in_sentences if re.match("chargeonce .*[^.]$", line)]


@pytest.mark.parametrize("name", [name for name in TEXTS if commands_of(name)])
def test_commands_of_a_page_are_understood(name: str) -> None:
    """Goal: an option that was renamed does not live on in a page."""
    for command in commands_of(name):
        words = shlex.split(re.split("[|>]", command)[0])[1:]
        assert callable(build_parser().parse_args(words).run), command


@pytest.mark.parametrize("name", TEXTS)
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    folder = ROOT if (ROOT / name).exists() else ROOT / "docs"
    for link in _LINK.findall(TEXTS[name]):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        path = (folder / target).resolve() if target else folder / name
        assert path.exists(), link
        if anchor:
            assert anchor in anchors_of(path.read_text("utf-8")), link


def anchors_of(text: str) -> set[str]:
    """What a page's headings are called in links."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("name", ["README.md", "failure-modes.md"])
def test_tests_that_a_page_names_are_there(name: str) -> None:
    """Goal: a defence that says which test guards it has one."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXTS[name])
    sources = "\n".join(path.read_text("utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    alone = re.findall(r"`(test_\w+|Test\w+)`", TEXTS[name])
    assert named or alone
    for path, test in named:
        source = (ROOT / path).read_text("utf-8")
        assert not test or re.search(rf"(?:def|class) {test}\b", source), test
    for test in alone:
        assert re.search(rf"(?:def|class) {test}\b", sources), test


def test_every_alert_has_its_section() -> None:
    """Goal: whoever is woken finds out what it means; no section is about an alert that is gone."""
    azure = (ROOT / "infra/azure/alerts.bicep").read_text("utf-8")
    google = (ROOT / "infra/gcp/alerts.tf").read_text("utf-8")
    alerts = set(re.findall(r"name: '([a-z-]+)'\n    severity", azure))
    alerts |= set(re.findall(r"^    ([a-z-]+) = \{", google, re.MULTILINE))
    alerts |= set(re.findall(r'display_name += "([a-z-]+)"', google))
    sections = re.findall(r"^## (.+)$", TEXTS["runbook.md"], re.MULTILINE)
    assert len(sections) == len(set(sections))
    assert set(sections) == alerts
