"""What a command hands back: one document for scripts, one view of it for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
        lists: the document's last fields, which are too long to be held in memory.
    """

    document: Mapping[str, object]
    show: Callable[[Console], None]
    exit_code: ExitCode = ExitCode.OK
    lists: Sequence[tuple[str, Iterable[Mapping[str, object]]]] = ()
