"""What a person sees: the progress while the demo runs, and the books in the end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from local.demo.books import Books, CloudBooks, VaultBooks
from local.demo.plan import CURRENCY, Cloud
from ops.amounts import format_amount

MOST_BROKEN_SHOWN = 10
_TITLES: Final = {Cloud.PUBSUB: "Pub/Sub", Cloud.SERVICE_BUS: "Service Bus"}
_CLOUD_ROWS: Final[Sequence[tuple[str, Callable[[CloudBooks], int | None]]]] = (
    ("messages published", lambda cloud: cloud.published),
    ("deliveries decided", lambda cloud: cloud.deliveries),
    ("  delivered again by the broker", lambda cloud: cloud.redeliveries),
    ("  met somebody else charging the same", lambda cloud: cloud.met_another_holder),
    ("  found it finished: duplicates prevented", lambda cloud: cloud.duplicates_prevented),
    ("lock and deadline extensions refused or lost", lambda cloud: cloud.leases_not_extended),
    ("locks and deadlines run out while charging", lambda cloud: cloud.leases_run_out),
    ("dead letters", lambda cloud: cloud.dead_letters),
    ("processes killed while charging", lambda cloud: cloud.killed_processes),
)


class Screen(Protocol):
    """Where the demo tells how far it is."""

    def say(self, sentence: str) -> None:
        """Tell something that has happened."""
        ...

    def show_progress(self, stage: str, done: int, total: int) -> None:
        """Tell what is going on, and how much of it is done."""
        ...


class QuietScreen:
    """Shows nothing."""

    def say(self, sentence: str) -> None:
        """See `Screen.say`."""

    def show_progress(self, stage: str, done: int, total: int) -> None:
        """See `Screen.show_progress`."""


class ProgressScreen:
    """Sentences, and a bar below them that is gone in the end."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def say(self, sentence: str) -> None:
        """See `Screen.say`."""
        self._progress.console.print(sentence)

    def show_progress(self, stage: str, done: int, total: int) -> None:
        """See `Screen.show_progress`."""
        self._progress.update(self._task, description=stage, completed=done, total=total)


@contextmanager
def progress_screen(console: Console) -> Iterator[Screen]:
    """Yield a screen on a console; on a terminal with a moving bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        yield ProgressScreen(progress)


def print_books(console: Console, books: Books) -> None:
    """Print what happened on each cloud, then the table that ends in the double charges."""
    console.print(_cloud_table(books))
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in _rows(books):
        table.add_row(name, value)
    table.add_section()
    style = "bold red" if books.double_charges else "bold green"
    table.add_row(
        Text("double charges (by the simulator's ledger):", style=style),
        Text(str(books.double_charges), style=style),
    )
    console.print(table)
    if books.promises_broken:
        _print_broken(console, books)


def _cloud_table(books: Books) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("what happened")
    for cloud in books.clouds:
        table.add_column(_TITLES[cloud], justify="right")
    for name, count_of in _CLOUD_ROWS:
        counts = [count_of(each) for each in books.clouds.values()]
        table.add_row(name, *("-" if count is None else f"{count:,}" for count in counts))
    return table


def _rows(books: Books) -> list[tuple[str, str]]:
    return [
        ("customers", f"{books.customers:,}"),
        ("  whose event came through both clouds at once", f"{books.customers_on_both_clouds:,}"),
        ("customers charged", f"{books.charged:,}"),
        ("customers declined", f"{books.declined:,}"),
        ("customers refused and parked", f"{books.parked:,}"),
        ("doubts about money resolved", f"{books.in_doubt_resolved:,}"),
        ("charges cut short by a kill and taken over", f"{books.charges_cut_short:,}"),
        ("charged", format_amount(books.charged_cents, CURRENCY)),
        ("cap", format_amount(books.cap_cents, CURRENCY)),
        *_vault_rows(books.vault),
        ("seconds", f"{books.seconds:.0f}"),
        ("lost events", f"{books.lost_events:,}"),
    ]


def _vault_rows(vault: VaultBooks) -> list[tuple[str, str]]:
    asked, cap, charged = (
        format_amount(cents, CURRENCY)
        for cents in (vault.asked_cents, vault.cap_cents, vault.charged_cents)
    )
    return [
        (f"charged with a vault key of {cap}, asked for {asked}", charged),
        ("  charges that its cap refused", f"{vault.refused_by_cap:,}"),
        ("charges with another vault key", f"{vault.charges_before_revocation:,}"),
        ("  after it was revoked", f"{vault.charges_after_revocation:,}"),
    ]


def _print_broken(console: Console, books: Books) -> None:
    console.print(Text("Promises broken:", style="bold red"))
    for sentence in books.promises_broken[:MOST_BROKEN_SHOWN]:
        console.print(f"  {sentence}")
    more = len(books.promises_broken) - MOST_BROKEN_SHOWN
    if more > 0:
        console.print(f"  and {more} more")
    console.print(f"Logs: {books.log_directory}")
