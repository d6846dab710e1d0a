"""The demo: a few hundred customers charged under faults, then judged by Stripe's own ledger."""

from local.demo.books import Books, CloudBooks, VaultBooks
from local.demo.errors import DemoFailed
from local.demo.plan import DemoPlan
from local.demo.playing import play
from local.demo.screen import QuietScreen, print_books, progress_screen

__all__ = [
    "Books",
    "CloudBooks",
    "DemoFailed",
    "DemoPlan",
    "QuietScreen",
    "VaultBooks",
    "play",
    "print_books",
    "progress_screen",
]
