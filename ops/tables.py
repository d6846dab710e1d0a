"""Everything that people see: tables, the spend bar, progress.

The only module that imports rich, which scripts that use `--json` can do without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from ops.amounts import format_amount
from ops.audit.findings import Finding, FindingKind
from ops.documents import left_cents
from ops.errors import PackageMissing
from shared.outcome import Disposition, Outcome
from shared.ports import Adoption, AttemptLine, PeriodStatus, Run
from shared.rebuild import RebuildReport, RebuildState
from shared.record import FINAL, Record, RecordId, State

try:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Table
    from rich.text import Text
except ImportError:
    raise PackageMissing(
        "tables need the package rich: `python -m pip install -r requirements-ops.txt`, or use "
        "--json, which needs no package"
    ) from None

BAR_CHARACTERS = 40
MOST_CHARACTERS = 1000

_ADOPTION_STYLES = {
    Adoption.RESTORED: "green",
    Adoption.BROUGHT_FORWARD: "green",
    Adoption.BESIDE: "yellow",
    Adoption.SECOND_PAYMENT: "bold red",
}
_STATE_STYLES = {
    State.CHARGED: "green",
    State.IN_DOUBT: "bold yellow",
    State.REJECTED: "red",
    State.PARKED: "red",
}


def open_console() -> Console:
    """Standard output. Colour only on a terminal and without NO_COLOR; 80 columns elsewhere."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def print_run(console: Console, run: Run) -> None:
    """A run with its spend."""
    state = "open" if run.is_open else f"closed ({run.closed_reason})"
    console.print(
        _facts(
            ("run", run.billing_period),
            ("state", _safe(state)),
            ("opened", _moment(run.opened_at)),
            ("expected", format_amount(run.expected_cents, run.currency)),
            ("cap", format_amount(run.cap_cents, run.currency)),
            ("charged", format_amount(run.charged_cents, run.currency)),
            ("held", format_amount(run.held_cents, run.currency)),
            ("left", format_amount(left_cents(run), run.currency)),
            ("spend", spend_bar(run, ascii_only=console.options.ascii_only)),
        )
    )


def print_status(console: Console, status: PeriodStatus) -> None:
    """A period at a glance."""
    console.print(Text(f"period {status.billing_period}", style="bold"))
    console.print(_state_table(status))
    if status.run is None:
        console.print("No run is open for this period: its events wait.")
    else:
        print_run(console, status.run)
    if status.parked_event_count:
        console.print(_parked_line(status.parked_event_count))
    if status.kept_message_count:
        console.print(_kept_line(status.kept_message_count))
    oldest = status.oldest_unfinished
    if oldest is None:
        console.print("Nothing is unfinished.")
    else:
        console.print(_oldest_line(oldest, status.database_time))


def print_record(console: Console, record: Record, attempts: Sequence[AttemptLine]) -> None:
    """A record, and every delivery that touched it."""
    fingerprint = record.fingerprint
    facts: list[tuple[str, str | Text]] = [
        ("customer", _safe(record.customer_id)),
        ("period", record.billing_period),
        ("state", _state(record.state)),
        ("code", _safe(record.code or "")),
        ("verdict", _safe(record.verdict.message) if record.verdict else ""),
        ("amount", format_amount(fingerprint.amount_cents, fingerprint.currency)),
        ("held", format_amount(record.held_cents, fingerprint.currency)),
        ("Stripe customer", fingerprint.stripe_customer_id),
        ("payment", record.payment_id or ""),
        ("key", record.key),
        ("flow", str(record.flow)),
        ("attempt", str(record.attempt)),
        ("fence", str(record.fence)),
        ("started", _moment(record.attempt_started_at)),
        ("lease until", _moment(record.lease_until) if record.state not in FINAL else ""),
        ("updated", _moment(record.updated_at)),
    ]
    console.print(_facts(*(fact for fact in facts if fact[1])))
    console.print(_attempt_table(attempts))


def print_outcomes(console: Console, outcomes: Mapping[Outcome, int]) -> None:
    """What reconcile came to."""
    if not outcomes:
        console.print("Nothing was due.")
        return
    table = _table("outcome", "count")
    for outcome, count in sorted(outcomes.items(), key=lambda item: -item[1]):
        style = "yellow" if outcome.disposition is Disposition.LEAVE else ""
        table.add_row(Text(outcome, style=style), str(count))
    console.print(table)


def print_rebuild(console: Console, report: RebuildReport, *, is_dry_run: bool) -> None:
    """What the payments in Stripe's lists came to."""
    if report.since is None:
        console.print("The database is whole: there is nothing to rebuild.")
        return
    console.print(f"payments since {_moment(report.since)}")
    table = _table("came to", "payments")
    for adoption in Adoption:
        if report.adoptions[adoption]:
            style = _ADOPTION_STYLES.get(adoption, "")
            table.add_row(Text(adoption, style=style), str(report.adoptions[adoption]))
    if report.unreadable:
        table.add_row(Text("of no known record", style="red"), str(len(report.unreadable)))
    if table.row_count:
        console.print(table)
    else:
        console.print("None of them is of this deployment.")
    if is_dry_run:
        console.print("Nothing was changed.")
    elif report.state is RebuildState.WHOLE:
        console.print("The database is whole again; `chargeonce reconcile` finishes the rest.")
    elif report.state is RebuildState.BLOCKED:
        console.print(
            f"Nothing is charged until it is known whose these are: {', '.join(report.unreadable)}"
        )
        console.print(
            "Name their namespaces in BILLING_FORMER_NAMESPACES (ours) or BILLING_OTHER_NAMESPACES "
            "(another deployment's), or mend their metadata at Stripe; then run this again."
        )
    else:
        console.print("Commits were lost again meanwhile: run `chargeonce rebuild` once more.")


def print_rows(
    console: Console,
    headings: Sequence[str],
    lines: Sequence[Sequence[str]],
    left_off: int = 0,
    *,
    unfolded: bool = False,
) -> None:
    """A table of other people's text.

    Args:
        console: where to print.
        headings: of the columns.
        lines: one for each row.
        left_off: how many more there are.
        unfolded: each row stays one line, however wide: its ids are copied, or cut out by a pipe.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for line in lines:
        table.add_row(*(_safe(text) for text in line))
    if unfolded:
        wide = console.options.update_width(MOST_CHARACTERS)
        console.width = max(console.width, console.measure(table, options=wide).maximum)
    console.print(table)
    if left_off:
        console.print(f"and {left_off:,} more: --json shows all")


def print_due(console: Console, due: Sequence[RecordId]) -> None:
    """What reconcile would drive on."""
    if not due:
        console.print("Nothing is due.")
        return
    table = _table("customer", "period")
    for record_id in due:
        table.add_row(_safe(record_id.customer_id), record_id.billing_period)
    console.print(table)


def print_published(
    console: Console,
    destination: str,
    events: int,
    charges: int,
    totals: Mapping[str, int],
    *,
    dry_run: bool,
) -> None:
    """What was sent, or would be."""
    amounts = [format_amount(cents, currency) for currency, cents in sorted(totals.items())]
    console.print(
        _facts(
            ("would be sent" if dry_run else "sent", f"{events:,} events"),
            ("to", _safe(destination)),
            ("asking for", f"{charges:,} charges"),
            ("together", ", ".join(amounts)),
        )
    )


def spend_bar(run: Run, *, ascii_only: bool) -> Text:
    """Charged, held and left, in proportion to the cap."""
    charged_mark, held_mark, left_mark = "#=." if ascii_only else "█▒░"
    spent_cents = run.charged_cents + run.held_cents
    # What was spent past the cap has no room in the bar; its style and the number tell.
    charged = min(BAR_CHARACTERS, round(BAR_CHARACTERS * run.charged_cents / run.cap_cents))
    spent = min(BAR_CHARACTERS, round(BAR_CHARACTERS * spent_cents / run.cap_cents))
    is_over = spent_cents > run.cap_cents
    bar = Text(charged_mark * charged, style="bold red" if is_over else "green")
    bar.append(held_mark * (spent - charged), style="yellow")
    bar.append(left_mark * (BAR_CHARACTERS - spent), style="dim")
    bar.append(f" {100 * spent_cents / run.cap_cents:.1f} % of the cap")
    if is_over:
        bar.append(" (over it)", style="bold red")
    return bar


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[], None]]:
    """A progress bar on standard error, gone when it is done.

    Args:
        what: is going on.
        total: how many steps there are; None when nobody knows.

    Yields:
        What to call after each step.
    """
    console = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def print_audit(
    console: Console,
    facts: Sequence[tuple[str, str]],
    counts: Mapping[FindingKind, int],
    first: Callable[[FindingKind], Iterable[Finding]],
) -> None:
    """What an audit found: the counts, and the first findings of each kind.

    Args:
        console: where to.
        facts: what was compared.
        counts: how many findings there are of each kind.
        first: gives the findings of a kind that are to be shown.
    """
    console.print(_facts(*facts))
    if not counts:
        console.print("Nothing was found: Stripe and the records agree.")
        return
    table = _table("finding", "count")
    for kind, count in counts.items():
        table.add_row(kind, f"{count:,}")
    console.print(table)
    for kind, count in counts.items():
        console.print(Text(kind, style="bold"))
        console.print(f"  {kind.meaning}")
        shown = 0
        for shown, finding in enumerate(first(kind), start=1):  # noqa: B007 - counts them
            console.print(Text("  - ").append_text(_safe(_finding_line(finding))))
            console.print(Text("    ").append_text(_safe(finding.command)), soft_wrap=True)
        if shown < count:
            console.print(f"  and {count - shown:,} more: --first, --csv or --json show them")
        console.print()


def _finding_line(finding: Finding) -> str:
    """Whom it is about, and what was found."""
    who = finding.stripe_customer_id or ""
    if finding.record_id is not None:
        who = f"{finding.record_id.customer_id} {finding.record_id.billing_period}"
    elif finding.billing_period is not None:
        who = f"run {finding.billing_period}"
    return f"{who}: {finding.detail}"


@contextmanager
def share_done() -> Iterator[Callable[[str, float], None]]:
    """A progress bar on standard error for work whose steps cannot be counted beforehand.

    Yields:
        What to call with what is going on, and how much of it is done, from 0 to 1.
    """
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)


def _state_table(status: PeriodStatus) -> Table:
    table = _table("state", "records", "amount")
    currency = status.run.currency if status.run else None
    for state in State:
        count = status.count_by_state.get(state, 0)
        if count:
            amount = format_amount(status.cents_by_state.get(state, 0), currency)
            table.add_row(_state(state), f"{count:,}", amount)
    total = sum(status.count_by_state.values())
    amount = format_amount(sum(status.cents_by_state.values()), currency)
    table.add_section()
    table.add_row("total", f"{total:,}", amount)
    return table


def _attempt_table(attempts: Sequence[AttemptLine]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("time (UTC)", "fence", "decision", "code", "transport", "delivery"):
        table.add_column(heading, justify="right" if heading in ("fence", "delivery") else "left")
    table.add_column("message", overflow="fold")
    table.add_column("request", overflow="fold")
    for line in attempts:
        table.add_row(
            f"{line.noted_at:%m-%d %H:%M:%S}",
            str(line.fence or ""),
            _safe(line.decision),
            _safe(line.code or ""),
            _safe(line.transport),
            str(line.delivery_count or ""),
            _safe(line.message_id),
            _safe(line.request_id or ""),
        )
    return table


def _parked_line(count: int) -> str:
    messages = "1 message was" if count == 1 else f"{count:,} messages were"
    return f"{messages} dead-lettered; the database keeps a copy of each."


def _kept_line(count: int) -> str:
    messages = "1 message is" if count == 1 else f"{count:,} messages are"
    return f"{messages} kept in the broker's place; reconcile delivers what it can."


def _oldest_line(record: Record, now: datetime) -> Text:
    line = Text("Oldest unfinished: ")
    line.append_text(_safe(record.customer_id))
    line.append(", ")
    line.append_text(_state(record.state))
    line.append(f" for {duration(now - record.attempt_started_at)}")
    if record.code:
        line.append_text(_safe(f" ({record.code})"))
    return line


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def _facts(*facts: tuple[str, str | Text]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value)
    return table


def _state(state: State) -> Text:
    return Text(state, style=_STATE_STYLES.get(state, ""))


def _safe(text: str) -> Text:
    """Other people's text without what a terminal would obey or hide."""
    return Text("".join(character if character.isprintable() else "\ufffd" for character in text))


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def duration(span: timedelta) -> str:
    """How long something took or has lasted, in the largest unit that fits."""
    seconds = max(0, int(span.total_seconds()))
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = seconds // length
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{seconds} second{'' if seconds == 1 else 's'}"


def print_facts(console: Console, facts: Sequence[tuple[str, str]]) -> None:
    """Names and values, one to a line."""
    console.print(_facts(*((name, _safe(value)) for name, value in facts)))
