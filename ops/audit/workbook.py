"""Where an audit keeps what it has read: an SQLite file that indexes both sides.

So memory stays small, payments that lie far apart still meet, and an audit that was stopped goes
on where it was. Every page is one transaction together with its cursor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from ops.audit import statements
from ops.audit.findings import Finding, FindingKind
from ops.audit.judging import Alike, Case
from ops.audit.payments import Dispute, Payment
from ops.audit.workbook_file import open_workbook
from shared.event import Fingerprint
from shared.ports import RecordLine
from shared.record import RecordId
from shared.store.rows import read_record_line


class Workbook:
    """What one audit has read and found. Not for threads.

    Args:
        path: where to keep it, so that the audit can go on after it was stopped; None for a
            private file that nobody sees and that ends with the process.

    Raises:
        Refused: there is another file at the path, or another audit uses it.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._database = open_workbook(path)

    def close(self) -> None:
        """Leave it, to go on with later."""
        self._database.close()

    def discard(self) -> None:
        """End it: the audit is done."""
        self._database.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def note(self, name: str, value: object) -> None:
        """Remember a value that JSON can hold, on its own."""
        with self._database:
            self._note(name, value)

    def noted(self, name: str) -> Any:
        """A remembered value; None when there is none."""
        row = self._database.execute("SELECT text FROM notes WHERE name = ?", [name]).fetchone()
        return None if row is None else json.loads(row[0])

    def add_payments(self, payments: Iterable[Payment], place: str, cursor: object) -> None:
        """Add a page, and remember where it ends. A payment that is there already stays once."""
        rows = [
            (
                *(each.charge_id, each.payment_id, each.paid.stripe_customer_id),
                *(each.paid.amount_cents, each.paid.currency, each.refunded_cents),
                *(each.description, each.created),
                *_mark_of(each),
            )
            for each in payments
        ]
        with self._database:
            self._database.executemany(statements.ADD_PAYMENT, rows)
            self._note(place, cursor)

    def add_disputes(self, disputes: Iterable[Dispute], place: str, cursor: object) -> None:
        """Add a page, and remember where it ends."""
        rows = [(each.id, each.charge_id, each.amount_cents, each.status) for each in disputes]
        with self._database:
            self._database.executemany(statements.ADD_DISPUTE, rows)
            self._note(place, cursor)

    def forget_records(self) -> None:
        """Read the records anew: they are quickly read, and better fresh."""
        with self._database:
            self._database.execute("DELETE FROM records")

    def add_records(self, lines: Iterable[RecordLine]) -> None:
        """Add some records."""
        rows = [
            (
                *(each.record_id.billing_period, each.record_id.customer_id),
                *(each.fingerprint.stripe_customer_id, each.fingerprint.amount_cents),
                *(each.fingerprint.currency, each.state, each.payment_id, each.held_cents),
                *(each.is_leased, each.started_at.timestamp()),
            )
            for each in lines
        ]
        with self._database:
            self._database.executemany(statements.ADD_RECORD, rows)

    def pair(self) -> None:
        """Bring payments and records together; both must be complete."""
        with self._database:
            self._database.execute(statements.MARKED)
            self._database.execute(statements.PAIR)

    def unknown_alike(self, at_once: int) -> Iterator[Sequence[tuple[str, str]]]:
        """Yield charges of which nothing is known and that look like another one.

        Args:
            at_once: how many at the most.

        Yields:
            Ids of charges, each with that of its payment.
        """
        rows = self._database.execute(statements.UNKNOWN)
        while some := rows.fetchmany(at_once):
            yield some

    def note_known(self, charge_ids: Iterable[str]) -> None:
        """Remember that a record outside of what was read names these."""
        with self._database:
            self._database.executemany(statements.KNOWN, [(each,) for each in charge_ids])

    def cases(self, since: datetime, until: datetime) -> Iterator[Case]:
        """Yield everything that belongs together, one customer's period at a time.

        Args:
            since: payments before it were not read.
            until: payments after it were not read.
        """
        moments = {"since": since.timestamp(), "until": until.timestamp()}
        rows = self._database.execute(statements.CASES, moments)
        for _, group in groupby(rows, key=lambda row: row[:2]):
            first, *others = group
            line = _read_line(first)
            found = [row[10:] for row in (first, *others) if row[10] is not None]
            yield Case(line.record_id, line, [self._read_payment(row) for row in found])
        rows = self._database.execute(statements.PAYMENTS_ALONE)
        for key, group in groupby(rows, key=lambda row: row[:2]):
            payments = [self._read_payment(row[2:]) for row in group]
            yield Case(RecordId(*key), None, payments)

    def alike(self) -> Iterator[Iterator[Alike]]:
        """Yield the payments of the same customer, amount, currency and description together."""
        rows = self._database.execute(statements.ALIKE)
        pairs = (Alike(self._read_payment(row[1:]), bool(row[0])) for row in rows)
        for _, group in groupby(
            pairs, key=lambda each: (each.payment.paid, each.payment.description)
        ):
            yield group

    def disputes_of(self, charge_id: str) -> Sequence[Dispute]:
        """The disputes of a charge."""
        rows = self._database.execute(statements.DISPUTES_OF_CHARGE, [charge_id])
        return [Dispute(*row) for row in rows]

    def periods(self) -> Sequence[str]:
        """The billing periods of which anything was read."""
        return [row[0] for row in self._database.execute(statements.PERIODS)]

    def count(self, table: str) -> int:
        """How many `payments` or `records` were read."""
        counts = {
            "payments": "SELECT count(*) FROM payments",
            "records": "SELECT count(*) FROM records",
        }
        return int(self._database.execute(counts[table]).fetchone()[0])

    def replace_findings(self, findings: Iterable[Finding]) -> None:
        """Keep these findings, all of them or none."""
        rows = (
            (finding.kind, number, json.dumps(asdict(finding)))
            for number, finding in enumerate(findings)
        )
        with self._database:
            self._database.execute("DELETE FROM findings")
            for row in rows:
                self._database.execute(statements.ADD_FINDING, row)

    def findings_by_kind(self) -> Mapping[FindingKind, int]:
        """How many there are of each kind, the gravest first; kinds without any are left out."""
        rows = dict(
            self._database.execute("SELECT kind, count(*) FROM findings GROUP BY kind").fetchall()
        )
        return {kind: rows[kind] for kind in FindingKind if kind in rows}

    def findings(self, kind: FindingKind, limit: int | None = None) -> Iterator[Finding]:
        """Yield the findings of a kind, in the order of their periods and customers."""
        rows = self._database.execute(
            "SELECT finding FROM findings WHERE kind = ? ORDER BY number LIMIT ?",
            [kind, -1 if limit is None else limit],
        )
        for (text,) in rows:
            yield _read_finding(json.loads(text))

    def _note(self, name: str, value: object) -> None:
        self._database.execute(statements.ADD_NOTE, [name, json.dumps(value)])

    def _read_payment(self, row: Sequence[Any]) -> Payment:
        charge_id, payment_id, amount_cents, currency, stripe_customer_id = row[:5]
        refunded_cents, description, created, marked_customer_id, marked_period = row[5:]
        return Payment(
            charge_id=charge_id,
            payment_id=payment_id,
            paid=Fingerprint(amount_cents, currency, stripe_customer_id),
            refunded_cents=refunded_cents,
            description=description,
            created=created,
            mark=RecordId(marked_customer_id, marked_period) if marked_period else None,
            disputes=self.disputes_of(charge_id),
        )


def _mark_of(payment: Payment) -> tuple[str | None, str | None]:
    mark = payment.mark
    return (mark.customer_id, mark.billing_period) if mark else (None, None)


def _read_line(row: Sequence[Any]) -> RecordLine:
    """A record that was added, without the types that SQLite lacks."""
    *same, is_leased, started_at = row[:10]
    return read_record_line([*same, bool(is_leased), datetime.fromtimestamp(started_at, UTC)])


def _read_finding(document: dict[str, Any]) -> Finding:
    record_id = document["record_id"]
    return Finding(
        **{
            **document,
            "kind": FindingKind(document["kind"]),
            "record_id": RecordId(**record_id) if record_id else None,
        }
    )
