"""Every `az`, `azd` and `func` command of scripts and docs is one that exists.

The tools are not at hand where the tests run. azure_commands.json says which subcommands there are,
with which options, and the page that says so; scripts and docs are held to it.
"""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.infra.tools import ROOT

KNOWN: dict[str, tuple[str, list[str]]] = json.loads(
    (Path(__file__).parent / "azure_commands.json").read_text()
)
# https://learn.microsoft.com/cli/azure/reference-docs-index: every command has these.
GLOBAL_OPTIONS = {"--query", "--output"}
TOOLS = ("az", "azd", "func")
SCRIPTS = sorted((ROOT / "infra" / "azure").glob("*.sh"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
STARTS = re.compile(r"(?:^|[;&|(]|\$ )\s*((?:azd|az|func) [a-z])", re.MULTILINE)


def commands_of_shell(text: str) -> list[list[str]]:
    """The words of each such command in a shell script, also within `$(...)`."""
    text = re.sub(r"\\\n\s*", " ", text)
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [_words(text[start.start(1) :]) for start in STARTS.finditer(text)]


def commands_of_page(text: str) -> list[list[str]]:
    """The same in a page's blocks of shell, and in what it puts between backticks."""
    blocks = re.findall(r"```(?:sh|console|shell|bash)\n(.*?)```", text, re.DOTALL)
    inline = re.findall(
        r"`((?:azd|az|func) [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    )
    return [words for part in (*blocks, *inline) for words in commands_of_shell(part)]


def mistake_in(words: list[str]) -> str | None:
    """Why it cannot be one that exists."""
    command = next((known for known in KNOWN if words[: len(known.split())] == known.split()), None)
    if command is None:
        return f"{' '.join(words)}: no such subcommand is known"
    allowed = {*KNOWN[command][1], *GLOBAL_OPTIONS}
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    return f"{command}: {sorted(given - allowed)}" if given - allowed else None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_use_what_exists(script: Path) -> None:
    """Goal: nobody finds out on the way that an option is an invention."""
    assert list(filter(None, map(mistake_in, commands_of_shell(script.read_text())))) == []


def test_pages_use_what_exists() -> None:
    """Goal: the same for what people copy from the docs."""
    found = [words for page in PAGES for words in commands_of_page(page.read_text())]
    assert list(filter(None, map(mistake_in, found))) == []
    assert {words[0] for words in found} == set(TOOLS)


def test_the_list_holds_nothing_more_than_addresses() -> None:
    """Goal: each entry can be looked up."""
    for command, (address, options) in KNOWN.items():
        assert command.split()[0] in TOOLS
        assert address.startswith("https://learn.microsoft.com/"), command
        assert all(option.startswith("--") for option in options), command


@pytest.mark.parametrize(
    "text",
    [
        "x=$(az group show --nmae here)",
        "az group remove --name here",
        "true && func azure functionapp publish app \\\n    --bild remote",
        "azd provison",
    ],
)
def test_a_planted_mistake_is_found(text: str) -> None:
    """Goal: commands are found wherever they stand."""
    (words,) = commands_of_shell(text)
    assert mistake_in(words) is not None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_posix_and_stop_at_errors(script: Path) -> None:
    """Goal: any shell runs them, and a failed step is the last."""
    text = script.read_text()
    subprocess.run(["sh", "-n", script], check=True)
    assert "\nset -eu\n" in text or '\n. "$(dirname "$0")/common.sh"\n' in text
    assert script.name == "common.sh" or text.startswith("#!/bin/sh\n")


def _words(text: str) -> list[str]:
    """Up to the end of the command: of its line, a pipe, or the bracket that it stands in."""
    depth, quote, end = 0, "", len(text)
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")" and depth:
            depth -= 1
        elif character in "\n;|&)" and not depth:
            end = index
            break
    return shlex.split(text[:end], comments=True)
