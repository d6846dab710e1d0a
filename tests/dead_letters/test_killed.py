"""Killed between sending a letter and removing it: it is there twice, and charges once."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from local.pubsub_emulator import Effect, Target
from local.pubsub_emulator import Fault as PubsubFault
from local.servicebus_emulator import Fault, FaultKind, Match
from ops.exit_codes import ExitCode
from shared.dead_letter_attributes import ORIGINAL_MESSAGE_ID
from tests.cli.conftest import CommandLine
from tests.support.dead_letters import QUEUE, Morgue
from tests.support.servicebus import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@contextmanager
def killed(morgue: Morgue, place: str) -> Iterator["subprocess.Popen[str]"]:
    """An operator at work while the block runs; then SIGKILL."""
    process = morgue.start("dlq", "resubmit", "--in", place, "--json")
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_killed_before_a_letter_of_service_bus_is_removed(
    morgue: Morgue, chargeonce: CommandLine
) -> None:
    """Goal: its completion has reached nobody; the next run sends it again."""
    morgue.bury_in_azure({"a": morgue.azure.customer("a")})
    dead = f"{QUEUE}/$DeadLetterQueue"
    match = Match(entity=dead, operation="complete", count=1)
    morgue.azure.emulator.add_fault(Fault(FaultKind.SETTLEMENT_LOST, match, acts=False))
    with killed(morgue, "servicebus"):
        wait_until(lambda: morgue.azure.emulator.settlements(dead))
    assert (morgue.sent_to_azure(), morgue.azure_dead_letters()) == (1, 1)
    morgue.azure.emulator.clear_faults()
    morgue.azure.lapse_locks()
    again = chargeonce("dlq", "resubmit", "--in", "servicebus", "--json")
    assert (again.code, again.document["done"]) == (ExitCode.OK, 1)
    assert (morgue.sent_to_azure(), morgue.azure_dead_letters()) == (2, 0)
    with morgue.billed():
        morgue.wait_until_billed()
    assert morgue.charges() == {"cus_a": 1}
    assert morgue.azure_dead_letters() == 0


def test_killed_before_a_letter_of_pubsub_is_removed(
    morgue: Morgue, chargeonce: CommandLine
) -> None:
    """Goal: the same; both copies tell by which id the message was first sent."""
    morgue.bury_in_google({"a": morgue.azure.customer("a")})
    control = morgue.google.cloud.control
    morgue.shorten_leases()
    refused = PubsubFault(
        Target.ACK,
        Effect.REFUSE,
        resource=morgue.google.dead_letter_subscription,
        status="UNAVAILABLE",
    )
    control.inject(refused)
    with killed(morgue, "pubsub"):
        wait_until(lambda: morgue.sent_to_google() == 1)
    control.clear_faults()
    assert morgue.google_dead_letters() == 1
    again = chargeonce("dlq", "resubmit", "--in", "pubsub", "--json")
    assert (again.code, again.document["done"]) == (ExitCode.OK, 1)
    assert (morgue.sent_to_google(), morgue.google_dead_letters()) == (2, 0)
    copies = morgue.google.cloud.pull(morgue.google.subscription, 2)
    for copy in copies:
        assert copy.message.attributes[ORIGINAL_MESSAGE_ID] == "a"
        morgue.google.cloud.set_deadline(morgue.google.subscription, copy, 0)
    with morgue.billed():
        morgue.wait_until_billed()
    assert morgue.charges() == {"cus_a": 1}
