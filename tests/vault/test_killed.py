"""Goal: wherever the proxy's process is killed, its holds end without a human.

The process is the real one, `chargeonce vault serve`, and it gets a real SIGKILL while Stripe acts.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import pytest

from local.stripe_simulator import Fault, FaultKind, Match
from tests.support.processes import free_port
from tests.support.vault import CHARGE, STRIPE_KEY, VaultBench
from tests.support.waiting import wait_until
from tests.vault.test_spending import CONFIRM, create

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def serving(vault: VaultBench) -> Iterator[Callable[[], None]]:
    """A proxy in a process of its own, to which the bench sends; yields what kills it."""
    vault.port = free_port()
    command = [sys.executable, "-m", "ops", "vault", "serve", "--port", str(vault.port)]
    command += ["--processes", "2"]
    environment = {
        **os.environ,
        "DATABASE_URL": vault.database_url,
        "STRIPE_API_KEY": STRIPE_KEY,
        "STRIPE_API_BASE": vault.stripe_url,
        "VAULT_PROXY_SERVES": "calls",
    }
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
    )

    def kill() -> None:
        # Its worker too: the process is the leader of a group of its own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)

    def answers() -> bool:
        assert process.poll() is None
        try:
            return vault.get("none", "/v1/account").status == 401
        except ConnectionError:
            return False

    try:
        wait_until(answers, "the proxy answers")
        yield kill
    finally:
        if process.poll() is None:
            kill()


@pytest.mark.parametrize("flow", ["charge", "payment_intent"])
def test_killed_after_stripe_acted(vault: VaultBench, flow: str) -> None:
    key = vault.mint(daily_usd=10.0)
    path, parameters = "/v1/charges", CHARGE
    if flow == "payment_intent":
        path, parameters = f"/v1/payment_intents/{create(vault, key)}/confirm", CONFIRM
    vault.fault(Fault(FaultKind.HANG, Match(path=path, count=1), acts=True))

    def call() -> None:
        with pytest.raises((ConnectionError, HTTPException)):
            vault.post(key, path, parameters, "key-1")

    with serving(vault) as kill:
        caller = threading.Thread(target=call)
        caller.start()
        wait_until(lambda: vault.moved_cents() == 1000, "Stripe has acted")
        kill()
        caller.join(20)
    vault.stripe.clear_faults()
    assert vault.money() == (1000, 0)
    vault.make_due()
    with serving(vault):
        wait_until(lambda: vault.money() == (0, 1000), "the hold is resolved")
        assert vault.post(key, "/v1/charges", CHARGE).code == "spend_cap_reached"
    assert vault.moved_cents() == 1000
