"""What `func` and `gcloud` would upload: the files that their ignore files let through."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

ROOT = Path(__file__).resolve().parents[2]
FUNC = ".funcignore"
GCLOUD = ".gcloudignore"


def uploaded_files(root: Path, ignore_file: str) -> set[str]:
    """The paths that are let through, as git reads such a file (both tools say that they do).

    Args:
        root: of the repository.
        ignore_file: `FUNC` or `GCLOUD`.
    """
    spec = GitIgnoreSpec.from_lines((root / ignore_file).read_text("utf-8").splitlines())
    return set(_walk(root, spec))


def upload(root: Path, ignore_file: str, folder: Path) -> Path:
    """Unpack elsewhere what would be uploaded.

    Args:
        root: of the repository.
        ignore_file: `FUNC` or `GCLOUD`.
        folder: does not exist yet.
    """
    for name in uploaded_files(root, ignore_file):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    return folder


def _walk(root: Path, spec: GitIgnoreSpec) -> Iterator[str]:
    for folder, children, files in os.walk(root):
        inside = Path(folder).relative_to(root)
        # What an ignored folder holds is not looked at: nothing in it can be let through.
        children[:] = [name for name in children if not spec.match_file(f"{inside / name}/")]
        for name in files:
            if not spec.match_file(str(inside / name)):
                yield str(inside / name)
