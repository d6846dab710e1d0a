"""What happened in a simulation, as structured lines that are the same wherever they are made."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One thing that happened.

    Args:
        at_seconds: virtual time since the start.
        who: a process, or a part of the world.
        what: the port and method, or the event.
        detail: names and numbers; never the text of an exception.
    """

    at_seconds: float
    who: str
    what: str
    detail: str


class Trace:
    """The lines of one simulation in their order."""

    def __init__(self) -> None:
        self.lines: list[TraceLine] = []

    def render(self) -> str:
        """The lines as text for people."""
        return "".join(f"{_render(line)}\n" for line in self.lines)

    def digest(self) -> str:
        """A fingerprint of the whole trace."""
        return hashlib.sha256(self.render().encode()).hexdigest()


def _render(line: TraceLine) -> str:
    shown = f"{_render_time(line.at_seconds)}  {line.who:<12}  {line.what:<26}  {line.detail}"
    return shown.rstrip()


def _render_time(at_seconds: float) -> str:
    milliseconds = round(at_seconds * 1000)
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days:3d}d {hours:02d}:{minutes:02d}:{seconds:02d}.{milliseconds:03d}"
