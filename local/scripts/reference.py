"""Writes the pages of docs/ that are made from the code: `make reference`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from local.scripts.settings_page import settings_page
from ops.doctor.numbers import numbers_page
from ops.doctor.rules_page import rules_page

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES: Mapping[str, Callable[[], str]] = {
    "doctor.md": rules_page,
    "numbers.md": numbers_page,
    "settings.md": settings_page,
}


def write_pages(folder: Path = DOCS) -> None:
    """Write every page.

    Args:
        folder: where.
    """
    for name, make in PAGES.items():
        (folder / name).write_text(make(), "utf-8")


if __name__ == "__main__":
    write_pages()
