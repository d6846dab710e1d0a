"""Programs that some tests and the demo use where they exist, and do without where they do not."""

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TRY_SECONDS: Final = 60
_PUBSUB_EMULATOR: Final = Path("platform", "pubsub-emulator", "bin", "cloud-pubsub-emulator")


@dataclass(frozen=True, slots=True)
class Missing:
    """A program that cannot be used here."""

    name: str
    reason: str
    how_to_get: str

    def __str__(self) -> str:
        return f"{self.name} is missing: {self.reason}. {self.how_to_get}"


@functools.cache
def find_tool(name: str) -> Path | Missing:
    """Return where a program is, having seen it run, or why it cannot be used.

    Args:
        name: One of `gcloud`, `java`, `node`, `terraform` and `pubsub-emulator`.

    Raises:
        ValueError: No such program is known here.
    """
    finder = _FINDERS.get(name)
    if finder is None:
        raise ValueError(f"unknown tool {name!r}; known are {', '.join(sorted(_FINDERS))}")
    return finder()


def _on_path(name: str, version_option: str, how_to_get: str) -> Path | Missing:
    found = shutil.which(name)
    if found is None:
        return Missing(name, "it is not on PATH", how_to_get)
    # macOS has stand-ins for some programs that only say where to get the real one.
    try:
        subprocess.run(
            [found, version_option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TRY_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Missing(name, f"{found} does not run ({error})", how_to_get)
    return Path(found)


def _pubsub_emulator() -> Path | Missing:
    how_to_get = "Install it with: gcloud components install pubsub-emulator"
    java = find_tool("java")
    if isinstance(java, Missing):
        return Missing("pubsub-emulator", f"it needs Java, and {java.reason}", java.how_to_get)
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        return Missing("pubsub-emulator", "gcloud is not on PATH", _GET_GCLOUD)
    # gcloud's launcher lies in the `bin` of the folder that holds its components.
    emulator = Path(gcloud).resolve().parents[1] / _PUBSUB_EMULATOR
    if not os.access(emulator, os.X_OK):
        return Missing("pubsub-emulator", f"there is no {emulator}", how_to_get)
    return emulator


_GET_GCLOUD: Final = "See https://cloud.google.com/sdk/docs/install"

_FINDERS: Final[Mapping[str, Callable[[], Path | Missing]]] = {
    "gcloud": lambda: _on_path("gcloud", "--version", _GET_GCLOUD),
    "java": lambda: _on_path(
        "java",
        "-version",
        "On Debian: apt-get install default-jre-headless; macOS: brew install openjdk",
    ),
    "node": lambda: _on_path(
        "node", "--version", "On Debian: apt-get install nodejs; macOS: brew install node"
    ),
    "terraform": lambda: _on_path(
        "terraform", "-version", "See https://developer.hashicorp.com/terraform/install"
    ),
    "pubsub-emulator": _pubsub_emulator,
}
