"""The reconcile timer says that a cap is nearly used up."""

import json
import logging

import pytest

from shared.outcome import Outcome
from shared.reconcile import keep_up
from shared.upkeep import build_upkeep
from tests.support.bench import RULES, Bench, ImpatientClock


def test_a_cap_that_is_nearly_used_up_is_one_line(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: the line that an alert is built on, with the numbers that somebody asks for."""
    bench.customer()
    assert bench.deliver() is Outcome.CHARGED
    bench.execute("UPDATE chargeonce.runs SET cap_cents = charged_cents * 100 / 95")
    upkeep = build_upkeep(bench.store, bench.payments, ImpatientClock(), RULES)
    with caplog.at_level(logging.INFO, logger="chargeonce"):
        keep_up(bench.biller(), upkeep)
        keep_up(bench.biller(), upkeep)
    lines = [json.loads(message) for message in caplog.messages]
    (line,) = [line for line in lines if line.get("event") == "spend_near_cap"]
    ((charged_cents, cap_cents),) = bench.query(
        "SELECT charged_cents, cap_cents FROM chargeonce.runs"
    )
    assert (line["used_cents"], line["cap_cents"]) == (charged_cents, cap_cents)
    assert (line["severity"], line["period"]) == (
        "WARNING",
        bench.query("SELECT billing_period FROM chargeonce.runs")[0][0],
    )
