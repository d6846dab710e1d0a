"""What the process's exit code says. Scripts may rely on these numbers."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    SETTINGS = 3
    DATABASE = 4
    SCHEMA = 5
    PACKAGE = 6
    FINDINGS = 7
    STRIPE = 8
    INCOMPLETE = 9
    BROKER = 10
    DEFECT = 70
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """The number's line in the table that --help and the docs show."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "done, or already as asked",
    ExitCode.FAILED: "not found, refused, or a check or promise does not hold",
    ExitCode.USAGE: "the command line was wrong",
    ExitCode.SETTINGS: "settings are missing or wrong; all of them are listed",
    ExitCode.DATABASE: "the database is away",
    ExitCode.SCHEMA: "the database's schema is not the one this version needs",
    ExitCode.PACKAGE: "a package that this command needs is not installed",
    ExitCode.FINDINGS: "audit or doctor has ended and found something",
    ExitCode.STRIPE: "Stripe could not be read; run it again",
    ExitCode.INCOMPLETE: "done in part; what is left is told, and running it again is safe",
    ExitCode.BROKER: "a message broker cannot be reached, or refuses",
    ExitCode.DEFECT: "an error of our own; please report it",
    ExitCode.INTERRUPTED: "interrupted",
}


def exit_code_table() -> str:
    """The table for --help."""
    return "\n".join(f"  {code:>3}  {code.meaning}" for code in ExitCode)
