"""The workbook's file: made for its owner alone, used by one audit at a time."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from ops.audit import statements
from ops.errors import Refused

_UNNAMED = ""
_LOCK_SECONDS = 1.0


def open_workbook(path: Path | None) -> sqlite3.Connection:
    """Open or make the file.

    Args:
        path: where it is; None for one of SQLite's own that nobody sees and that ends with the
            connection.

    Raises:
        Refused: there is another file at the path, or another audit uses it.
    """
    if path is not None:
        _make_private(path)
    database = sqlite3.connect(path or _UNNAMED, timeout=_LOCK_SECONDS)
    try:
        _prepare(database)
    except sqlite3.DatabaseError as error:
        database.close()
        if "locked" in str(error):
            raise Refused(f"{path} is in use by another audit") from None
        raise Refused(f"{path} is no audit's file: choose another one") from None
    except Refused:
        database.close()
        raise
    return database


def _make_private(path: Path) -> None:
    """Make the file, for nobody else to read, unless it exists."""
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from None


def _prepare(database: sqlite3.Connection) -> None:
    # Held until it is closed, so that two audits cannot write to one file.
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("BEGIN EXCLUSIVE")
    database.commit()
    application_id = database.execute("PRAGMA application_id").fetchone()[0]
    (table_count,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application_id == 0 and table_count == 0:
        database.executescript(f"BEGIN; {statements.TABLES} COMMIT;")
    elif application_id != statements.APPLICATION_ID:
        raise sqlite3.DatabaseError("another program's file")
    elif database.execute("PRAGMA user_version").fetchone()[0] != statements.FORMAT:
        raise Refused("the file is of another version of chargeonce: start anew with another file")
