"""`chargeonce audit`: compare Stripe's own lists with the records, and change nothing."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ops.arguments import add_command, billing_period, duration, moment, whole_number
from ops.deployment import read_deployment_settings
from ops.errors import NotFound, Refused
from ops.exit_codes import ExitCode
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from ops.audit.auditor import Scope, Tell
    from ops.audit.findings import Finding, FindingKind
    from ops.audit.workbook import Workbook
    from shared.ports import Books
    from shared.settings import Settings

DEFAULT_FIRST = 10
MAX_FIRST = 1_000_000
# Shorter than a month, longer than a dead letter's usual two weeks.
DEFAULT_APART = "20d"
# Stripe's clock, the database's and ours may differ.
MARGIN = timedelta(days=1)
_COLUMNS = ("kind", "customer_id", "billing_period", "stripe_customer_id", "payment_ids")


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "audit",
        "compare Stripe's own payments with the records, and change nothing",
        run,
        "chargeonce audit --period 2026-11\n"
        "chargeonce audit --since 30d --csv findings.csv\n"
        "chargeonce audit --since 2026-11-01 --resume audit.state --json",
        details="Finds customers charged twice, payments without a record and records without a "
        "payment, other amounts, refunds and disputes, and money that is held for nothing; says "
        "what each finding means and which command acts on it (docs/audit.md). Needs the settings "
        "of the deployment; the key must be able to read charges, PaymentIntents and disputes.",
    )
    command.add_argument(
        "--period",
        type=billing_period,
        metavar="PERIOD",
        help="only this billing period, for example 2026-11",
    )
    command.add_argument(
        "--since",
        type=_typed_moment,
        metavar="MOMENT",
        help="payments made since: 2026-11-01, 2026-11-01T12:00Z, or how long ago, like 36h or 30d "
        "(default with --period: since a day before the period's first record)",
    )
    command.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep what was read in FILE, and go on with it after the audit was stopped; gone when "
        "the audit is complete",
    )
    command.add_argument(
        "--csv", type=Path, metavar="FILE", help="write every finding to FILE as well"
    )
    command.add_argument(
        "--first",
        type=whole_number(MAX_FIRST, least=0),
        default=DEFAULT_FIRST,
        metavar="N",
        help="show the first N findings of each kind (default: %(default)s)",
    )
    command.add_argument(
        "--apart",
        type=duration,
        default=DEFAULT_APART,
        metavar="DURATION",
        help="payments that say nothing of their period are suspected to be the same charge when "
        "they are no further apart; shorter than a billing period (default: %(default)s)",
    )


class _TypedMoment(NamedTuple):
    """A moment, and how it was typed: `30d` is another moment whenever it is typed."""

    text: str
    moment: datetime


def _typed_moment(text: str) -> _TypedMoment:
    return _TypedMoment(text, moment(text))


def run(arguments: argparse.Namespace) -> Report:
    """Compare, and report what was found."""
    from ops.audit.workbook import Workbook
    from shared.store.books import PostgresBooks
    from shared.store.migrations import check_schema

    if arguments.period is None and arguments.since is None:
        raise Refused("say what to compare: --period, --since, or both")
    settings = read_deployment_settings()
    check_schema(settings.database_url)
    workbook = Workbook(arguments.resume)
    try:
        with closing(PostgresBooks(settings.database_url)) as books:
            scope = _audit(settings, books, workbook, arguments)
        if arguments.csv is not None:
            _write_csv(arguments.csv, workbook)
        return _report(workbook, scope, arguments.first)
    except BaseException:
        workbook.close()
        raise


def _audit(
    settings: Settings, books: Books, workbook: Workbook, arguments: argparse.Namespace
) -> Scope:
    """Do all the reading and judging; the findings are in the workbook afterwards."""
    from ops.audit.auditor import Auditor, check_identity
    from shared.wiring import build_lists

    lists = build_lists(settings)
    check_identity(lists, books, settings.rules.key_livemode)
    scope = _read_scope(books, workbook, arguments)
    with _progress(shown=not arguments.json) as tell:
        Auditor(lists, books, workbook, scope, arguments.apart, tell).run()
    return scope


def _read_scope(books: Books, workbook: Workbook, arguments: argparse.Namespace) -> Scope:
    """What to compare: as asked for, or as the audit that is gone on with was begun."""
    from ops.audit.auditor import Scope

    asked = [arguments.period, arguments.since and arguments.since.text]
    begun = workbook.noted("scope")
    if begun is None:
        until = books.database_time()
        scope = Scope(arguments.period, _since(books, arguments), until)
        if scope.since >= until:
            raise Refused("--since lies in the future")
        begun = [asked, scope.since.isoformat(), until.isoformat()]
        workbook.note("scope", begun)
    elif begun[0] != asked:
        raise Refused(
            f"{arguments.resume} belongs to an audit with another --period or --since: finish "
            "that one, or choose another file"
        )
    return Scope(arguments.period, *map(datetime.fromisoformat, begun[1:]))


def _since(books: Books, arguments: argparse.Namespace) -> datetime:
    if arguments.since is not None:
        since: datetime = arguments.since.moment
        return since
    beginning = books.beginning(arguments.period)
    if beginning is None:
        raise NotFound(
            f"nothing is known of period {arguments.period}: --since says how far to look back"
        )
    return beginning - MARGIN


@contextmanager
def _progress(*, shown: bool) -> Iterator[Tell]:
    if not shown:
        yield lambda _what, _share: None
        return
    from ops.tables import share_done

    with share_done() as tell:
        yield tell


def _report(workbook: Workbook, scope: Scope, first: int) -> Report:
    """What was found. Printing it ends the workbook."""
    counts = workbook.findings_by_kind()
    document = {
        "period": scope.billing_period,
        "since": scope.since.isoformat(),
        "until": scope.until.isoformat(),
        "payments_read": workbook.count("payments"),
        "records_read": workbook.count("records"),
        "counts": dict(counts),
        "meanings": {kind: kind.meaning for kind in counts},
    }

    def show(console: Console) -> None:
        from ops.tables import print_audit

        facts = [
            ("period", scope.billing_period or "all"),
            ("payments made", f"{scope.since:%Y-%m-%d %H:%M} to {scope.until:%Y-%m-%d %H:%M} UTC"),
            ("payments read", f"{workbook.count('payments'):,}"),
            ("records read", f"{workbook.count('records'):,}"),
        ]
        print_audit(console, facts, counts, lambda kind: workbook.findings(kind, first))
        workbook.discard()

    exit_code = ExitCode.FINDINGS if counts else ExitCode.OK
    return Report(document, show, exit_code, [("findings", _documents(workbook, counts))])


def _documents(
    workbook: Workbook, counts: Mapping[FindingKind, int]
) -> Iterator[dict[str, object]]:
    for kind in counts:
        for finding in workbook.findings(kind):
            yield _document(finding)
    workbook.discard()


def _document(finding: Finding) -> dict[str, object]:
    record_id = finding.record_id
    return {
        "kind": finding.kind,
        "customer_id": record_id.customer_id if record_id else None,
        "billing_period": record_id.billing_period if record_id else finding.billing_period,
        "stripe_customer_id": finding.stripe_customer_id,
        "payment_ids": list(finding.payment_ids),
        "detail": finding.detail,
        "command": finding.command,
    }


def _write_csv(path: Path, workbook: Workbook) -> None:
    """Write every finding; the file is there whole or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, (*_COLUMNS, "detail", "command"))
            writer.writeheader()
            for kind in workbook.findings_by_kind():
                for finding in workbook.findings(kind):
                    row = _document(finding)
                    writer.writerow({**row, "payment_ids": " ".join(finding.payment_ids)})
        partial.replace(path)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error
