"""Rows of an older system's table of charges: where they come from, and what their columns mean."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from ops.errors import Refused
from ops.import_records import COLUMNS

if TYPE_CHECKING:
    from shared.event import UsageEvent

STANDARD_INPUT = "-"
MAX_PROBLEMS_TOLD = 20

_NEEDED = ("customer", "period")
# What they are called in an event, whose rules check them.
_EVENT_FIELDS = {
    "customer": "customer_id",
    "period": "billing_period",
    "amount": "amount_cents",
    "currency": "currency",
    "stripe_customer": "stripe_customer_id",
}
# Stand in for what a row leaves to Stripe, until Stripe is asked.
_LEFT_TO_STRIPE: Mapping[str, object] = {"amount_cents": 1, "stripe_customer_id": "cus_unknown"}

PAID = frozenset(
    {"billed", "captured", "charged", "complete", "completed", "paid"}
    | {"success", "successful", "succeeded"}
)
FAILED = frozenset(
    {"canceled", "cancelled", "declined", "error", "failed", "refused", "rejected", "skipped"}
    | {"void", "voided"}
)


class Row(NamedTuple):
    """A checked row.

    Args:
        line: its number in the file; rows of a query count from 2, as if it were one.
        event: whom it charged, for what; what it leaves to Stripe is made up.
        given: the event's fields that it really gives.
        payment_id: None when it names none.
        status: in lower case; empty when it gives none.
    """

    line: int
    event: UsageEvent
    given: frozenset[str]
    payment_id: str | None
    status: str


class RowReader:
    """Reads and checks rows, any number of times.

    Args:
        text: CSV with a header line; can be gone back to its beginning.
        mapping: which column holds which of our fields, where the usual names do not fit.
        currency: of rows that name none, lower case.
        leaves_to_stripe: whether a paid row may leave amount and Stripe customer out.
    """

    def __init__(
        self, text: IO[str], mapping: Mapping[str, str], currency: str, *, leaves_to_stripe: bool
    ) -> None:
        self._text = text
        self._mapping = mapping
        self._currency = currency
        self._leaves_to_stripe = leaves_to_stripe

    def check(self, advance: Callable[[], None]) -> int:
        """Check every row and return how many there are.

        Raises:
            Refused: names each line that is wrong, up to a limit; or the header is.
        """
        problems: list[str] = []
        count = 0
        for line, row in self._read():
            count += 1
            if isinstance(row, str):
                problems.append(f"line {line}: {row}")
            advance()
        if problems:
            shown = [f"  {problem}" for problem in problems[:MAX_PROBLEMS_TOLD]]
            if len(problems) > MAX_PROBLEMS_TOLD:
                shown.append(f"  and {len(problems) - MAX_PROBLEMS_TOLD:,} more")
            raise Refused("\n".join(["nothing was imported:", *shown]))
        return count

    def rows(self) -> Iterator[Row]:
        """Yield the rows, which must have been checked."""
        for _, row in self._read():
            if isinstance(row, Row):
                yield row

    def _read(self) -> Iterator[tuple[int, Row | str]]:
        """Yield each row with its line, or what is wrong with it."""
        self._text.seek(0)
        reader = csv.DictReader(self._text, strict=True)
        try:
            columns = _columns_of(reader.fieldnames or (), self._mapping)
            for fields in reader:
                if None in fields:
                    yield reader.line_num, "has more values than the header has names"
                    continue
                values = {name: (fields[column] or "").strip() for name, column in columns.items()}
                yield reader.line_num, self._check(reader.line_num, values)
        except UnicodeDecodeError as error:
            raise Refused(f"after line {reader.line_num}: no UTF-8 ({error.reason})") from None
        except csv.Error as error:
            raise Refused(f"line {reader.line_num}: no CSV ({error})") from None

    def _check(self, line: int, values: Mapping[str, str]) -> Row | str:
        from shared.errors import InvalidEvent
        from shared.outside_payments import check_word
        from shared.seen_payments import is_payment_id

        payment_id, status = values.get("payment") or None, values.get("status", "").lower()
        given: dict[str, object] = {
            field: values[name] for name, field in _EVENT_FIELDS.items() if values.get(name)
        }
        if payment_id is not None and not is_payment_id(payment_id):
            return "payment: must be an id that starts with pi_, ch_ or py_"
        if status in PAID and payment_id is None:
            return f"payment: is missing, although the status is {status!r}"
        amount = str(given.get("amount_cents", "0"))
        if not (amount.isascii() and amount.isdigit() and len(amount) <= 18):
            return "amount: must be a whole number of the currency's smallest unit"
        if "amount_cents" in given:
            given["amount_cents"] = int(amount)
        is_word = status in PAID and not self._leaves_to_stripe
        left_out: Mapping[str, object] = {} if is_word else _LEFT_TO_STRIPE
        try:
            event = check_word({"currency": self._currency, **left_out, **given})
        except InvalidEvent as error:
            return str(error)
        return Row(line, event, frozenset(given), payment_id, status)


def parse_mapping(entries: Sequence[str]) -> Mapping[str, str]:
    """Read `--map field=column` options.

    Raises:
        Refused: names what is wrong.
    """
    mapping: dict[str, str] = {}
    for entry in entries:
        name, equals, column = entry.partition("=")
        if name not in COLUMNS or not equals or not column:
            raise Refused(f"--map {entry}: give FIELD=COLUMN, with FIELD one of {_names()}")
        mapping[name] = column
    return mapping


@contextmanager
def open_csv(name: str) -> Iterator[IO[str]]:
    """A CSV file, or standard input, which is copied so that it can be read twice.

    Raises:
        Refused: it cannot be read.
    """
    if name != STANDARD_INPUT:
        try:
            with Path(name).open(encoding="utf-8-sig", newline="") as file:
                yield file
        except OSError as error:
            raise Refused(f"{name} cannot be read: {error.strerror}") from error
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        with io.TextIOWrapper(copy, encoding="utf-8-sig", newline="") as text:
            yield text


@contextmanager
def open_query(database_url: str, statement: str) -> Iterator[IO[str]]:
    """The rows of a query as CSV, copied so that no transaction stays open while they are used.

    Raises:
        SettingsError: the connection string cannot be read.
        RecordsUnavailable: that database is away, or refused the query.
    """
    from shared.store.foreign import foreign_rows

    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as copy:
        writer = csv.writer(copy)
        with foreign_rows(database_url, statement) as found:
            writer.writerow(found.columns)
            writer.writerows([_text(value) for value in row] for row in found.rows)
        yield copy


def _columns_of(header: Sequence[str], mapping: Mapping[str, str]) -> Mapping[str, str]:
    """Which column holds which of our fields."""
    by_name = {column.strip().lower(): column for column in header}
    columns = {}
    for name, usual in COLUMNS.items():
        looked_for = (mapping[name],) if name in mapping else usual
        found = next(
            (by_name[each.lower()] for each in looked_for if each.lower() in by_name), None
        )
        if found is not None:
            columns[name] = found
        elif name in mapping or name in _NEEDED:
            shown = ", ".join(sorted(by_name)) or "nothing"
            raise Refused(
                f"no column {looked_for[0]} for {name}: the header has {shown}; "
                f"--map {name}=COLUMN names another"
            )
    return columns


def _text(value: object) -> str:
    if value is None:
        return ""
    # A numeric column has its zeros after the point written out.
    if isinstance(value, Decimal) and value % 1 == 0:
        return str(int(value))
    return re.sub("\x00", "", str(value))


def _names() -> str:
    return ", ".join(COLUMNS)
