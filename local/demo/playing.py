"""The demo from its first process to its books: publish, break things, wait, read the ledger."""

import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil

from local.demo.bookkeeping import gather_evidence, write_books
from local.demo.books import Books
from local.demo.errors import DemoFailed
from local.demo.mischief import faults, late_answers, slow_answers
from local.demo.plan import (
    CAP_PERCENT,
    CURRENCY,
    PERIOD,
    Cloud,
    DemoPlan,
    resend,
    resubmit,
    write_script,
)
from local.demo.screen import Screen
from local.demo.service_bus import CONSUMERS
from local.demo.stage import PROCESSES, WORKERS, Stage, set_up
from local.demo.vault import go_wild
from local.demo.waiting import ending_when_interrupted, wait_until
from local.functions_host import MISSING
from local.google_function import GoogleFunction
from shared.decision_log import LOGGER_NAME
from shared.reconcile import reconcile
from shared.record import State
from shared.runs import cap_from_expected
from shared.settings import read_settings
from shared.wiring import build_biller

KILL_AFTER_SHARE: Final = 0.3
# The emulator pushes only two or three messages at a time.
HELD_WHEN_KILLED: Final = 2
KILL_SECONDS: Final = 15.0
RESTART_SECONDS: Final = 30.0
SETTLE_SECONDS: Final = 180.0
RECONCILE_SECONDS: Final = 60.0
LATER_SECONDS: Final = 25 * 3600.0
RESENT_EVENTS: Final = 40


def play(plan: DemoPlan, screen: Screen) -> Books:
    """Play the demo and judge it.

    Args:
        plan: What was asked for.
        screen: Where it tells how far it is.

    Raises:
        DemoFailed: It could not be played to its end.
    """
    started = time.monotonic()
    with _log_directory() as log_directory, ending_when_interrupted(), ExitStack() as stack:
        stage = set_up(stack, plan, write_script(plan), screen, log_directory)
        _introduce(stage, time.monotonic() - started)
        _perform(stage)
        evidence = gather_evidence(stage)
        vault = go_wild(stage.proxy, stage.stripe, plan.seed, screen)
        books = write_books(stage, evidence, vault, time.monotonic() - started)
    if books.promises_broken:
        return replace(books, log_directory=log_directory)
    shutil.rmtree(log_directory)
    return books


def _introduce(stage: Stage, seconds: float) -> None:
    say = stage.screen.say
    pulling = "" if stage.broker.pull_subscription is None else f", {WORKERS} pull workers"
    function_app = "" if stage.consumers.function_app is None else ", the function app"
    say(f"Ready after {seconds:.0f} seconds: one PostgreSQL, one simulated Stripe, two clouds.")
    say(f"  Google: {stage.broker.name}; push function ({PROCESSES} processes){pulling}")
    say(f"  Azure:  {stage.queue.name}; {CONSUMERS} consumers{function_app}")
    if stage.consumers.function_app is None:
        say(f"          (no function app, which needs {MISSING}: docs/azure.md)")
    say("One request in five goes wrong at Stripe. Service Bus renews no lock, and")
    say(f"{len(stage.script.slow_customers)} customers' charges take longer than their locks last.")


def _perform(stage: Stage) -> None:
    cap_cents = cap_from_expected(stage.script.expected_cents, CAP_PERCENT)
    stage.store.open_run(PERIOD, CURRENCY, stage.script.expected_cents, cap_cents)
    for fault in [*slow_answers(stage.script.slow_customers), *faults()]:
        stage.stripe.add_fault(fault)
    doing = "charging, with Stripe going wrong"
    stage.publish(stage.script.messages, doing)
    wait_until(lambda: stage.settled_share(doing) >= KILL_AFTER_SHARE, SETTLE_SECONDS)
    _kill_one_of_each_cloud(stage)
    wait_until(lambda: stage.settled_share(doing) == 1.0, SETTLE_SECONDS)
    stage.stripe.clear_faults()
    _reconcile(stage)
    stage.stripe.advance_clock(LATER_SECONDS)
    _send_again(stage)


def _kill_one_of_each_cloud(stage: Stage) -> None:
    """Kill processes with SIGKILL while Stripe has charged and they do not know yet."""
    fault_id = stage.stripe.add_fault(late_answers())
    wait_until(lambda: all(_is_charging(stage, cloud) for cloud in Cloud), KILL_SECONDS)
    stage.consumers.processes.kill_one()
    stage.killed_processes[Cloud.SERVICE_BUS] += 1
    process_id = _busiest_worker(stage.function)
    os.kill(process_id, signal.SIGKILL)
    stage.killed_processes[Cloud.PUBSUB] += 1
    stage.stripe.remove_fault(fault_id)
    stage.screen.say("Killed one process of each cloud (SIGKILL) while it was charging.")
    if not wait_until(lambda: _is_replaced(stage, process_id), RESTART_SECONDS):
        raise DemoFailed("the killed process was not started again")


def _is_charging(stage: Stage, cloud: Cloud) -> bool:
    return stage.observer.held_count(stage.transports[cloud]) >= HELD_WHEN_KILLED


def _busiest_worker(function: GoogleFunction) -> int:
    def open_pushes(process_id: int) -> int:
        connections = psutil.Process(process_id).net_connections("tcp")
        return sum(
            each.status == psutil.CONN_ESTABLISHED and each.laddr.port == function.port
            for each in connections
        )

    return max(function.worker_pids(), key=open_pushes)


def _is_replaced(stage: Stage, process_id: int) -> bool:
    alive = stage.function.worker_pids()
    return process_id not in alive and len(alive) == PROCESSES


def _reconcile(stage: Stage) -> None:
    """Finish, without their messages, the records that are not finished."""
    biller = build_biller(read_settings(stage.settings), stage.store)

    def nothing_unfinished() -> bool:
        stage.observer.end_pauses()
        reconcile(biller, stage.store)
        return stage.observer.unfinished_count() == 0

    unfinished = stage.observer.unfinished_count()
    wait_until(nothing_unfinished, RECONCILE_SECONDS)
    if unfinished:
        stage.screen.say(f"Reconcile finished {unfinished} records without their messages.")


def _send_again(stage: Stage) -> None:
    """Send charged events and dead letters again, now that Stripe has forgotten its keys."""
    records = stage.observer.records()
    charged = [
        customer
        for customer in stage.script.customers
        if customer.customer_id in records and records[customer.customer_id].state is State.CHARGED
    ]
    again = resend(stage.plan, charged, RESENT_EVENTS)
    letters = {
        Cloud.PUBSUB: stage.observer.parked_bodies(stage.transports[Cloud.PUBSUB]),
        Cloud.SERVICE_BUS: stage.queue.take_dead_letters(),
    }
    resubmitted = [
        message
        for cloud, bodies in letters.items()
        for message in resubmit(stage.plan, bodies, cloud)
    ]
    doing = "the same events, a day later"
    stage.publish([*again, *resubmitted], doing)
    stage.screen.say(
        f"{LATER_SECONDS / 3600:.0f} hours later by Stripe's clock, which forgets keys:"
    )
    stage.screen.say(f"  {len(again)} charged events come again, through the other cloud")
    stage.screen.say(f"  {len(resubmitted)} dead letters come again, under new message ids")
    wait_until(lambda: stage.settled_share(doing) == 1.0, SETTLE_SECONDS)


@contextmanager
def _log_directory() -> Iterator[Path]:
    """Yield a directory for logs, this process's own among them; it stays when the demo fails."""
    directory = Path(tempfile.mkdtemp(prefix="chargeonce-demo-"))
    handler = logging.FileHandler(directory / "demo.log")
    root, decisions = logging.getLogger(), logging.getLogger(LOGGER_NAME)
    root.addHandler(handler)
    try:
        yield directory
    except KeyboardInterrupt:
        shutil.rmtree(directory)
        raise
    except Exception as error:
        decisions.exception("the demo broke off")
        problem = str(error) or type(error).__name__
        raise DemoFailed(f"the demo broke off: {problem}\nIts logs are in {directory}") from error
    finally:
        root.removeHandler(handler)
        handler.close()
