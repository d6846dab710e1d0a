"""What a command hands back: one document for scripts, one view of it for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ops.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.console import Console


# A tuple and not a dataclass, whose machinery would take a third of the time of --help.
class Report(NamedTuple):
    """The result of a command.

    Args:
        document: what `--json` prints.
        show: prints the same for people.
        exit_code: what the process ends with.
    """

    document: Mapping[str, object]
    show: Callable[[Console], None]
    exit_code: ExitCode = ExitCode.OK
