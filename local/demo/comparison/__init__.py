"""The same bad day, for this project's worker and for two that one usually finds.

Each has the same customers, events and mishaps, two processes on a subscription of its own, a
Stripe and a database; then a day passes, the processes are started anew, and somebody sends some
of the events again. Stripe's ledger tells what it cost whom.
"""

from local.demo.comparison.playing import play_comparison
from local.demo.comparison.schedule import ComparisonPlan
from local.demo.comparison.score import Comparison, Score
from local.demo.comparison.table import print_comparison

__all__ = ["Comparison", "ComparisonPlan", "Score", "play_comparison", "print_comparison"]
