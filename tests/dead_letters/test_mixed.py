"""Dead letters of all kinds, old ones, sent again by two people at once, one of them killed."""

import json
import subprocess
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from local.stripe_simulator import CustomerSeed, Fault, FaultKind, Match
from ops.exit_codes import ExitCode
from shared.biller import Biller
from shared.breaker import Breaker
from shared.clock import SystemClock
from shared.ports import Delivery, Envelope, Settlement
from shared.settings import read_settings
from shared.wiring import build_parts
from tests.cli.conftest import CommandLine
from tests.support.dead_letters import Morgue
from tests.support.malformed_bodies import event_body
from tests.support.servicebus import wait_until

KINDS = ("charged", "declined", "doubted", "untried", "invalid")
VERDICTS = {
    "charged": "already_charged",
    "declined": "already_declined",
    "doubted": "continued_charge",
    "untried": "new_charge",
}
PAYING = frozenset({"charged", "doubted", "untried"})
CONFIRM = "/v1/payment_intents/*/confirm"
DAYS = 15
PER_SECOND = "200"


class Unsettled:
    """Leaves the message to whoever made it."""

    def complete(self) -> None:
        """See `Settlement.complete`."""

    def dead_letter(self, reason: str, description: str) -> None:
        """See `Settlement.dead_letter`."""

    def leave(self) -> None:
        """See `Settlement.leave`."""


@pytest.mark.parametrize(
    ("each", "cloud"),
    [
        (6, "azure"),
        # 1,000 on both clouds together.
        pytest.param(100, "azure", marks=[pytest.mark.prove, pytest.mark.timeout(600)]),
        pytest.param(100, "google", marks=[pytest.mark.prove, pytest.mark.timeout(600)]),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_two_operators_at_once_and_one_is_killed(
    morgue: Morgue, chargeonce: CommandLine, each: int, cloud: str
) -> None:
    """Goal: no double charge, nothing lost, and the summaries say what was done.

    Args:
        morgue: empty.
        chargeonce: the command line in this process.
        each: how many letters there are of each kind and cloud.
        cloud: where the killed one is at work.
    """
    letters = {
        cloud: {kind: names(cloud, kind, each) for kind in KINDS} for cloud in ("azure", "google")
    }
    prepare(morgue, letters)
    morgue.let_days_pass(DAYS)
    charged_before = morgue.charges()

    killed = morgue.start("dlq", "resubmit", "--per-second", PER_SECOND, "--json")
    survivor = morgue.start("dlq", "resubmit", "--per-second", PER_SECOND, "--json")
    sent_there = morgue.sent_to_azure if cloud == "azure" else morgue.sent_to_google
    wait_until(lambda: sent_there() > each, poll_seconds=0.005)
    killed.kill()
    killed.communicate()
    done = [finished(survivor), *rest(morgue, chargeonce, each)]

    # Of the others each was sent, by one of the two or by both.
    assert done[-1]["left"] == {"invalid_event": 2 * each}
    told = sum((Counter(document["verdicts"]) for document in done), Counter[str]())
    sent = morgue.sent_to_azure() + morgue.sent_to_google()
    assert 8 * each <= sent
    assert told.total() <= sent
    assert set(told) <= set(VERDICTS.values())

    with morgue.billed():
        morgue.wait_until_billed()
    expected = {
        f"cus_{name}"
        for kinds in letters.values()
        for kind, bodies in kinds.items()
        for name in bodies
        if kind in PAYING
    }
    assert charged_before.total() > 0
    assert morgue.charges() == dict.fromkeys(expected, 1)
    states = dict(
        morgue.azure.execute("SELECT state, count(*) FROM chargeonce.records GROUP BY state")
    )
    assert states == {"charged": len(expected), "declined": 2 * each}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_summary_is_exact(morgue: Morgue, chargeonce: CommandLine) -> None:
    """Goal: undisturbed, each kind is counted under its verdict, and each place for itself."""
    letters = {
        cloud: {kind: names(cloud, kind, 2) for kind in KINDS} for cloud in ("azure", "google")
    }
    prepare(morgue, letters)
    morgue.let_days_pass(DAYS)
    ran = chargeonce("dlq", "resubmit", "--json")
    document = ran.document
    each_place = dict.fromkeys(VERDICTS.values(), 2)
    assert ran.code == ExitCode.OK
    assert document["is_complete"]
    assert [place["verdicts"] for place in document["places"]] == [each_place, each_place]
    assert [place["left"] for place in document["places"]] == [{"invalid_event": 2}] * 2
    assert document["verdicts"] == dict.fromkeys(VERDICTS.values(), 4)
    assert (document["done"], morgue.sent_to_azure(), morgue.sent_to_google()) == (16, 8, 8)


def names(cloud: str, kind: str, each: int) -> Mapping[str, bytes]:
    """Events of one kind, by customer."""
    made = [f"{cloud}-{kind}-{number}" for number in range(each)]
    if kind == "invalid":
        return {name: b'{"customer_id": "' + name.encode() + b'"' for name in made}
    return {name: event_body(customer_id=name, stripe_customer_id=f"cus_{name}") for name in made}


def prepare(morgue: Morgue, letters: Mapping[str, Mapping[str, Mapping[str, bytes]]]) -> None:
    """Bring every record to where its kind says, and bury its message."""
    settings = read_settings(morgue.environment)
    parts = build_parts(settings, 1)
    clock = SystemClock()
    patient = Breaker(clock, threshold=1_000_000)
    biller = Biller(parts.store, parts.way.payments, clock, settings.rules, patient)
    for kind in KINDS:
        bodies = {name: body for kinds in letters.values() for name, body in kinds[kind].items()}
        ids = [f"cus_{name}" for name in bodies]
        face = "tok_chargeCustomerFail" if kind == "declined" else "tok_visa"
        morgue.stripe.seed_customers(CustomerSeed(ids=ids, source=face, payment_method=None))
        if kind == "doubted":
            # Half of them were charged in truth: only the answer is lost, and a look at it too.
            looks = Match(method="GET", path="/v1/payment_intents/*")
            morgue.stripe.add_fault(Fault(FaultKind.RESET, looks, acts=False))
            for number, customer in enumerate(ids):
                match = Match(method="POST", path=CONFIRM, customer=customer, count=1)
                fault = Fault(FaultKind.RESET, match, acts=number % 2 == 0)
                morgue.stripe.add_fault(fault)
        for name, body in bodies.items() if kind in ("charged", "declined", "doubted") else ():
            settlement: Settlement = Unsettled()
            biller.handle(Delivery(body, Envelope("servicebus", name, 1)), settlement)
    parts.close()
    morgue.stripe.clear_faults()
    for kind in KINDS:
        morgue.bury_in_azure(letters["azure"][kind], reason=kind)
        morgue.bury_in_google(letters["google"][kind], reason=kind)


def rest(morgue: Morgue, chargeonce: CommandLine, each: int) -> list[dict[str, Any]]:
    """Let what the dead held go, and send the rest again, until only what is invalid is left."""
    morgue.azure.lapse_locks()
    documents = []

    def is_done() -> bool:
        ran = chargeonce("dlq", "resubmit", "--per-second", PER_SECOND, "--json")
        documents.append(ran.document)
        left = (morgue.azure_dead_letters(), morgue.google_dead_letters())
        return left == (each, each) and documents[-1]["is_complete"]

    # Leases of Pub/Sub keep real time.
    wait_until(is_done, seconds=150)
    return documents


def finished(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What a command said that ran to its end."""
    stdout, stderr = process.communicate(timeout=300)
    assert stdout, stderr
    document = json.loads(stdout)
    assert isinstance(document, dict)
    return document
