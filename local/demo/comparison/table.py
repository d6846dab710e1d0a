"""What a person sees of a comparison."""

from collections.abc import Callable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.demo.comparison.contestant import ENTRIES, WORKERS
from local.demo.comparison.score import Comparison, Score
from local.demo.plan import CURRENCY
from ops.amounts import format_amount

_ROWS: tuple[tuple[str, Callable[[Score], int], Callable[[int], str]], ...] = (
    ("double charges", lambda score: score.double_charges, "{:,}".format),
    ("customers hit", lambda score: score.customers_hit, "{:,}".format),
    (
        "money overcharged",
        lambda score: score.overcharged_cents,
        lambda cents: format_amount(cents, CURRENCY),
    ),
    ("events lost: customers never charged", lambda score: score.events_lost, "{:,}".format),
    (
        "workers stuck in the evening",
        lambda score: score.workers_stuck,
        f"{{}} of {WORKERS}".format,
    ),
    ("messages that they held", lambda score: score.messages_stuck, "{:,}".format),
)


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print who cost whom what."""
    owed = format_amount(comparison.expected_cents, CURRENCY)
    console.print(
        f"{comparison.customers:,} customers owe {owed}, to each contestant the same, by Pub/Sub. "
        f"Seed {comparison.seed}, {comparison.seconds:.0f} seconds."
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("by Stripe's ledger")
    for entry in ENTRIES:
        table.add_column(entry.title, justify="right")
    for name, count_of, written in _ROWS:
        counts = [count_of(comparison.scores[entry.name]) for entry in ENTRIES]
        cells = [Text(written(count), style="bold red" if count else "green") for count in counts]
        table.add_row(name, *cells)
    console.print(table)
