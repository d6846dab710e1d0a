"""Dropping dead letters: only what is done with, and not before a file has it."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from ops.dead_letters.clearing import Action, Choice
from ops.dead_letters.judging import Judged, Selection
from ops.dead_letters.letters import DeadLetterPlace
from ops.errors import Refused
from shared.ports import Clock

# It holds what customers are charged.
OWNER_ONLY = 0o600


class DropFile:
    """The file that takes the letters in, one JSON object per line. It must not exist yet.

    Args:
        path: where it is made.
        clock: stamps each line.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Make it.

        Raises:
            Refused: it exists, or cannot be made.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            self._descriptor = os.open(self._path, flags, OWNER_ONLY)
            _sync_folder(self._path.parent)
        except FileExistsError:
            raise Refused(f"{self._path} exists already: name another file") from None
        except OSError as error:
            raise Refused(f"{self._path} cannot be written: {error.strerror}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def write(self, judged: Judged, place: str) -> None:
        """Add a letter; it is on the disk when this returns.

        Raises:
            Refused: the disk does not take it.
        """
        line = memoryview(json.dumps(self._document(judged, place)).encode() + b"\n")
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fsync(self._descriptor)
        except OSError as error:
            problem = f"{self._path} cannot be written: {error.strerror}; the rest was not dropped"
            raise Refused(problem) from error

    def _document(self, judged: Judged, place: str) -> dict[str, object]:
        letter = judged.letter
        return {
            "dropped_at": self._clock.now().isoformat(),
            "place": place,
            "position": letter.position,
            "message_id": letter.message_id,
            "correlation_id": letter.correlation_id,
            "reason": letter.reason,
            "description": letter.description,
            "since": letter.since.isoformat(),
            "delivery_count": letter.delivery_count,
            "properties": dict(letter.properties),
            "verdict": judged.forecast.verdict,
            # As bytes, since it need not be text.
            "body_base64": base64.b64encode(letter.body).decode(),
        }


class Drop:
    """Drops letters.

    Args:
        place: where they lie.
        selection: which ones.
        force: also those that are not provably done with.
        file: takes them in first.
    """

    def __init__(
        self, place: DeadLetterPlace, selection: Selection, *, force: bool, file: DropFile | None
    ) -> None:
        self._place = place
        self._selection = selection
        self._force = force
        self._file = file

    @property
    def action(self) -> Action:
        """What is done to which letters."""
        return Action(self.choose, self._write, self._place.remove)

    def choose(self, judged: Judged) -> Choice:
        """Pick what is provably done with."""
        if not self._selection.includes(judged):
            return Choice.IGNORE
        return Choice.ACT if judged.forecast.is_finished or self._force else Choice.LEAVE

    def _write(self, judged: Judged) -> None:
        assert self._file is not None, "nothing is dropped that no file has"
        self._file.write(judged, self._place.name)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
