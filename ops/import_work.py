"""What `chargeonce import` does: rows in, verdicts out."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ops.deployment import Deployment, open_deployment
from ops.documents import Document
from ops.exit_codes import ExitCode
from ops.import_rows import FAILED, PAID, Row, RowReader, open_csv, open_query, parse_mapping
from ops.report import Report

if TYPE_CHECKING:
    from datetime import datetime
    from typing import IO

    from rich.console import Console

    from shared.outside_payments import Judged, Recorder, Verdict
    from shared.seen_payments import SeenPayment

SHOWN_LINES = 20
KEPT_LINES = 1000
_METADATA = {"customer": "customer_id", "period": "billing_period"}


class Told(NamedTuple):
    """One row that needs somebody's attention.

    Args:
        place: its line, or the payment's id in Stripe's list.
        customer_id: whose it is; empty where it does not say.
        billing_period: the same.
        verdict: what became of it.
        message: what is wrong with it, where that is more than the verdict says.
    """

    place: str
    customer_id: str
    billing_period: str
    verdict: Verdict
    message: str = ""


@dataclass(slots=True)
class Summary:
    """What an import came to.

    Args:
        counts: rows by verdict.
        told: those that need attention, the first of them.
        runs_closed: periods whose run passed its cap and closed.
    """

    counts: Counter[Verdict] = field(default_factory=Counter)
    told: list[Told] = field(default_factory=list)
    runs_closed: set[str] = field(default_factory=set)

    def add(self, told: Told, judged: Judged) -> None:
        """Count a row, and remember it where somebody must look."""
        from shared.outside_payments import FINE, Verdict

        self.counts[judged.verdict] += 1
        if judged.run_closed:
            self.runs_closed.add(told.billing_period)
        is_fine = judged.verdict in FINE or judged.verdict is Verdict.UNNAMED
        if not is_fine and len(self.told) < KEPT_LINES:
            self.told.append(told)

    @property
    def left_off(self) -> int:
        """How many that need attention are not among `told`."""
        return self.attention - len(self.told)

    @property
    def attention(self) -> int:
        """How many need attention. Of payments that do not say whose they are, none does."""
        from shared.outside_payments import FINE, Verdict

        fine = FINE | {Verdict.UNNAMED}
        return sum(count for verdict, count in self.counts.items() if verdict not in fine)


def import_charges(arguments: argparse.Namespace) -> Report:
    """Import from whichever source is asked."""
    from shared.outside_payments import Recorder

    mapping = parse_mapping(arguments.map)
    with open_deployment() as deployment:
        namespace = deployment.settings.rules.key_namespace
        recorder = Recorder(deployment.operations, namespace, dry_run=arguments.dry_run)
        shown = not arguments.json
        if arguments.stripe_since is not None:
            since = arguments.stripe_since
            summary = _import_list(deployment, recorder, since, mapping, shown=shown)
        else:
            with _open_rows(arguments) as text:
                code = arguments.currency or deployment.settings.rules.currency
                reader = RowReader(text, mapping, code, leaves_to_stripe=arguments.verify)
                look_up = _looking_up(deployment) if arguments.verify else None
                summary = _import_rows(reader, recorder, look_up, shown=shown)
    return _report(summary, dry_run=arguments.dry_run)


def _open_rows(arguments: argparse.Namespace) -> AbstractContextManager[IO[str]]:
    from shared.settings import read_import_database_url

    if arguments.csv is not None:
        return open_csv(arguments.csv)
    return open_query(read_import_database_url(), arguments.sql)


LookUp = Callable[[str], "SeenPayment | None"]


def _looking_up(deployment: Deployment) -> LookUp:
    from shared.seen_payments import look_up

    upkeep = deployment.upkeep()
    upkeep.check_identity()

    def look(payment_id: str) -> SeenPayment | None:
        seen = look_up(upkeep.lists, payment_id)
        if seen is not None:
            upkeep.check_mode(seen.livemode)
        return seen

    return look


def _import_rows(
    reader: RowReader, recorder: Recorder, look_up: LookUp | None, *, shown: bool
) -> Summary:
    summary = Summary()
    with _progress("checking", None, shown=shown) as advance:
        count = reader.check(advance)
    with _progress("importing", count, shown=shown) as advance:
        for row in reader.rows():
            judged = _judge_row(row, recorder, look_up)
            event = row.event
            told = Told(f"line {row.line}", event.customer_id, event.billing_period, judged.verdict)
            summary.add(told, judged)
            advance()
    return summary


def _judge_row(row: Row, recorder: Recorder, look_up: LookUp | None) -> Judged:
    from shared.outside_payments import Judged, Verdict, Word, contradicts
    from shared.record import RecordId

    if row.payment_id is None or look_up is None:
        if row.status in PAID and row.payment_id is not None:
            return recorder.record_word(Word(row.event, row.payment_id))
        return Judged(Verdict.NO_MONEY if row.status in FAILED else Verdict.UNKNOWN_STATE)
    seen = look_up(row.payment_id)
    if seen is None:
        return Judged(Verdict.NOT_AT_STRIPE)
    if contradicts(seen, row.event, row.given):
        return Judged(Verdict.CONTRADICTED)
    if seen.finding is None and row.status in PAID:
        return Judged(Verdict.CONTRADICTED)
    return recorder.record_seen(seen, RecordId(row.event.customer_id, row.event.billing_period))


def _import_list(
    deployment: Deployment,
    recorder: Recorder,
    since: datetime,
    mapping: Mapping[str, str],
    *,
    shown: bool,
) -> Summary:
    summary = Summary()
    with _progress("reading Stripe's list", None, shown=shown) as advance:
        for seen in _listed(deployment, since):
            summary.add(*_judge_listed(seen, recorder, {**_METADATA, **mapping}))
            advance()
    return summary


def _listed(deployment: Deployment, since: datetime) -> Iterator[SeenPayment]:
    """Every charge, those of PaymentIntents too."""
    from shared.found_payments import CHARGES_PATH
    from shared.seen_payments import read_seen

    upkeep = deployment.upkeep()
    upkeep.check_identity()
    parameters = {"created[gte]": str(int(since.timestamp()))}
    for item in upkeep.lists.items(CHARGES_PATH, parameters):
        seen = read_seen(item)
        upkeep.check_mode(seen.livemode)
        yield seen


def _judge_listed(
    seen: SeenPayment, recorder: Recorder, names: Mapping[str, str]
) -> tuple[Told, Judged]:
    from shared.errors import InvalidEvent
    from shared.outside_payments import Judged, Verdict
    from shared.record import RecordId

    customer_id = seen.metadata.get(names["customer"], "")
    billing_period = seen.metadata.get(names["period"], "")
    asked = RecordId(customer_id, billing_period) if customer_id and billing_period else None
    problem = ""
    try:
        judged = recorder.record_seen(seen, asked)
    except InvalidEvent as error:
        judged, problem = Judged(Verdict.CONTRADICTED), str(error)
    told = Told(seen.payment_id, customer_id, billing_period, judged.verdict, problem)
    return told, judged


def _progress(
    what: str, total: int | None, *, shown: bool
) -> AbstractContextManager[Callable[[], None]]:
    if not shown:
        return nullcontext(lambda: None)
    from ops.tables import progress

    return progress(what, total)


def _report(summary: Summary, *, dry_run: bool) -> Report:
    def show(console: Console) -> None:
        from ops.tables import print_rows

        if dry_run:
            console.print("Nothing is changed; this is what would become of the rows:")
        counted = summary.counts.most_common()
        lines = [(verdict, f"{count:,}", verdict.sentence) for verdict, count in counted]
        print_rows(console, ("verdict", "rows", "meaning"), lines)
        if summary.told:
            headings = ("where", "customer", "period", "verdict", "problem")
            first = summary.told[:SHOWN_LINES]
            print_rows(console, headings, first, left_off=summary.attention - len(first))
        for billing_period in sorted(summary.runs_closed):
            console.print(f"The run of {billing_period} passed its cap and is closed.")

    document = {
        "verdicts": {str(verdict): count for verdict, count in summary.counts.items()},
        "attention": [_told_document(told) for told in summary.told],
        "left_off": summary.left_off,
        "runs_closed": sorted(summary.runs_closed),
        "dry_run": dry_run,
    }
    return Report(document, show, ExitCode.FAILED if summary.attention else ExitCode.OK)


def _told_document(told: Told) -> Document:
    return {
        "where": told.place,
        "customer_id": told.customer_id,
        "billing_period": told.billing_period,
        "verdict": told.verdict,
        "message": told.message or told.verdict.sentence,
    }
