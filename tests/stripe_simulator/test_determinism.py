"""Goal: one seed, one story: in every process, whatever the hash seed."""

import os
import subprocess
import sys
from pathlib import Path

from tests.stripe_simulator.support import Desk

REPOSITORY = Path(__file__).resolve().parents[2]

STORY = """
from local.stripe_simulator import CustomerSeed, FaultKind, Match
from tests.stripe_simulator.support import Desk

desk = Desk(seed=42)
desk.strike(FaultKind.DECLINE, Match(probability=0.4))
customers = [desk.customer(CustomerSeed()) for _ in range(5)]
for number, customer in enumerate(customers * 4):
    intent = desk.intent(customer.id, {"metadata[n]": number}, key=f"create-{number}")
    response = desk.confirm(intent, customer.payment_method, key=f"confirm-{number}")
    print(response.status, dict(response.headers), response.body)
    desk.clock.advance(7200)
print(desk.get("/v1/payment_intents", {"limit": 100}))
print([entry.to_json() for entry in desk.model.ledger.entries()])
"""


def tell(hash_seed: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", STORY],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return finished.stdout


def test_the_hash_seed_changes_nothing() -> None:
    first, second = tell("0"), tell("4242")

    assert first == second
    assert first.count("402 ") > 0
    assert first.count("200 ") > 0


def test_another_seed_gives_other_ids() -> None:
    assert Desk(seed=1).intent()["id"] != Desk(seed=2).intent()["id"]


def test_a_reset_starts_the_story_again() -> None:
    desk = Desk(seed=5)
    first = desk.intent()

    desk.model.reset()
    again = desk.intent()
    desk.model.reset(seed=6)
    other = desk.intent()

    assert again == first
    assert other["id"] != first["id"]
    assert len(desk.scope.payment_intents) == 1
