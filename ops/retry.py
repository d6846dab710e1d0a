"""`chargeonce retry`: give declined and rejected records another attempt."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from ops.arguments import (
    add_command,
    add_customer,
    add_dry_run,
    add_limit,
    add_period,
    payment_method,
)
from ops.deployment import Deployment, open_deployment
from ops.documents import Document
from ops.errors import NotFound, Refused
from ops.exit_codes import ExitCode
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from shared.record import Record

PAGE_RECORDS = 500
DEFAULT_LIMIT = 1000
MAX_LIMIT = 100_000
SHOWN_RECORDS = 20
WOULD_RETRY = "would_retry"
_GOOD = frozenset({"charged", "processing", WOULD_RETRY})


class Tried(NamedTuple):
    """One record and what came of trying it again.

    Args:
        record: as it is afterwards.
        verdict: the outcome, or why it was refused.
        sentence: the same for people, where it is no plain outcome.
    """

    record: Record
    verdict: str
    sentence: str


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "retry",
        "give declined or rejected records another attempt",
        run,
        "chargeonce retry --customer acme --period 2026-11\n"
        "chargeonce retry --customer acme --period 2026-11 --payment-method pm_123\n"
        "chargeonce retry --period 2026-11 --code insufficient_funds --dry-run",
        details="One record, or all of a period that failed for a reason. Whatever could charge "
        "twice is refused; run and cap are checked as for any event. Run by two people at once, "
        "each record is charged once. Needs the settings of the deployment.",
    )
    add_customer(command, required=False)
    add_period(command)
    command.add_argument(
        "--code",
        action="append",
        metavar="CODE",
        help="in place of --customer: all records that failed with this code; may be repeated",
    )
    command.add_argument(
        "--payment-method",
        type=payment_method,
        metavar="pm_...",
        help="what to charge, for one customer (default: the customer's default)",
    )
    add_limit(command, "try no more than N records", DEFAULT_LIMIT, MAX_LIMIT)
    add_dry_run(command)


def run(arguments: argparse.Namespace) -> Report:
    """Try one record or many."""
    if (arguments.customer is None) == (arguments.code is None):
        raise Refused("give either --customer, or --code for all records that failed with it")
    if arguments.payment_method is not None and arguments.customer is None:
        raise Refused("--payment-method belongs to one customer: give --customer")
    with open_deployment() as deployment:
        records = _select(deployment, arguments)
        with _progress(len(records), shown=not (arguments.json or arguments.dry_run)) as advance:
            tried = list(_try_all(deployment, records, arguments, advance))
    return _report(tried, dry_run=arguments.dry_run)


def _select(deployment: Deployment, arguments: argparse.Namespace) -> Sequence[Record]:
    from shared.record import RecordId

    if arguments.customer is None:
        return _failed_records(deployment, arguments.period, arguments.code, arguments.limit)
    record = deployment.store.get_record(RecordId(arguments.customer, arguments.period))
    if record is None:
        raise NotFound(
            f"there is no record of customer {arguments.customer!r} for period {arguments.period}"
        )
    return [record]


def _failed_records(
    deployment: Deployment, billing_period: str, codes: Sequence[str], limit: int
) -> Sequence[Record]:
    """All of them before the first is tried: what is declined again is not tried once more."""
    from shared.operations import RETRYABLE

    records: list[Record] = []
    while len(records) < limit:
        after = records[-1].customer_id if records else ""
        page = deployment.operations.failed_records(
            billing_period, sorted(RETRYABLE), codes, after, min(PAGE_RECORDS, limit - len(records))
        )
        if not page:
            break
        records.extend(page)
    return records


def _try_all(
    deployment: Deployment,
    records: Sequence[Record],
    arguments: argparse.Namespace,
    advance: Callable[[], None],
) -> Iterator[Tried]:
    from shared.retrying import refuse_retry, retry

    biller = deployment.biller()
    for record in records:
        refusal = refuse_retry(record, deployment.settings.rules.key_namespace)
        if refusal is not None:
            yield Tried(record, refusal, refusal.sentence)
        elif arguments.dry_run:
            yield Tried(record, WOULD_RETRY, f"as attempt {record.attempt + 1}")
        else:
            outcome = retry(biller, record, arguments.payment_method)
            found = deployment.store.get_record(record.record_id)
            yield Tried(found or record, outcome, "")
        advance()


def _progress(total: int, *, shown: bool) -> AbstractContextManager[Callable[[], None]]:
    if not shown or total == 1:
        return nullcontext(lambda: None)
    from ops.tables import progress

    return progress("trying again", total)


def _report(tried: Sequence[Tried], *, dry_run: bool) -> Report:
    counts = Counter(each.verdict for each in tried)

    def show(console: Console) -> None:
        from ops.tables import print_rows

        if not tried:
            console.print("No record failed for that reason.")
            return
        print_rows(
            console,
            ("verdict", "records"),
            [(verdict, f"{count:,}") for verdict, count in counts.most_common()],
        )
        headings = ("customer", "attempt", "verdict", "code", "meaning")
        lines = [_line(each) for each in tried[:SHOWN_RECORDS]]
        print_rows(console, headings, lines, left_off=max(0, len(tried) - SHOWN_RECORDS))

    document = {
        "looked_at": len(tried),
        "verdicts": dict(counts),
        "records": [_document(each) for each in tried],
        "dry_run": dry_run,
    }
    is_good = all(each.verdict in _GOOD for each in tried)
    return Report(document, show, ExitCode.OK if is_good else ExitCode.FAILED)


def _line(each: Tried) -> tuple[str, ...]:
    record = each.record
    return (
        record.customer_id,
        str(record.attempt),
        each.verdict,
        record.code or "",
        each.sentence,
    )


def _document(each: Tried) -> Document:
    record = each.record
    return {
        "customer_id": record.customer_id,
        "billing_period": record.billing_period,
        "verdict": each.verdict,
        "message": each.sentence,
        "state": record.state,
        "attempt": record.attempt,
        "code": record.code,
        "payment_id": record.payment_id,
    }
