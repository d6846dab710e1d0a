"""Retention: the reconcile timer deletes old lines, and what was charged stays charged once."""

from shared.outcome import Outcome
from shared.reconcile import keep_up
from shared.upkeep import build_upkeep
from tests.support.bench import RULES, Bench, ImpatientClock


def test_old_lines_go_with_the_timer(bench: Bench) -> None:
    """Goal: attempts and parked events of a finished charge go; the charge stays, once."""
    bench.customer()
    assert bench.deliver() is Outcome.CHARGED
    assert bench.deliver(amount_cents=1) is Outcome.CONFLICT
    bench.execute(
        """
        UPDATE chargeonce.attempts SET noted_at = noted_at - interval '91 days';
        UPDATE chargeonce.parked_events SET parked_at = parked_at - interval '91 days'
        """
    )

    def reconcile(retention_days: int) -> None:
        clock = ImpatientClock()
        upkeep = build_upkeep(bench.store, bench.payments, clock, RULES, retention_days)
        keep_up(bench.biller(), upkeep)

    reconcile(0)
    assert bench.parked_reasons() == ["Conflict"]
    reconcile(90)
    assert bench.parked_reasons() == []
    decisions = [
        decision for (decision,) in bench.query("SELECT decision FROM chargeonce.attempts")
    ]
    assert decisions == ["claimed"]
    assert bench.deliver(message_id="late") is Outcome.CHARGED
    bench.assert_charged_once()
