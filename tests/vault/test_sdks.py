"""Goal: an unmodified SDK charges through the proxy, meets the cap, and shows a proper error."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import stripe

from tests.support.missing import skip_outside_ci
from tests.support.vault import VaultBench

NODE_PROJECT = Path(__file__).parent / "node"
NPM_SECONDS = 90
CAP_MESSAGE = "daily spend cap of this key is $20.00"


def spend_in_python(client: stripe.StripeClient, amount: int) -> dict[str, Any]:
    """One charge, or the error in its place."""
    try:
        made = client.v1.payment_intents.create(
            {
                "amount": amount,
                "currency": "usd",
                "customer": "cus_1",
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            }
        )
        paid = client.v1.payment_intents.confirm(
            made.id, {"off_session": True, "payment_method": "pm_card_visa"}
        )
    except stripe.StripeError as error:
        code = error.error.code if error.error else None
        return {"type": type(error).__name__, "code": code, "message": str(error)}
    return {"status": paid.status}


def test_stripe_python(vault: VaultBench) -> None:
    client = stripe.StripeClient(
        vault.mint(daily_usd=20.0),
        base_addresses={"api": f"http://127.0.0.1:{vault.port}/stripe"},
        max_network_retries=1,
    )
    first, over, second = [spend_in_python(client, amount) for amount in (1000, 1001, 1000)]
    assert (first, second) == ({"status": "succeeded"}, {"status": "succeeded"})
    assert (over["type"], over["code"]) == ("RateLimitError", "spend_cap_reached")
    assert CAP_MESSAGE in over["message"]
    assert vault.moved_cents() == 2000


def test_stripe_node(vault: VaultBench, requires_node: Path, tmp_path: Path) -> None:
    key = vault.mint(daily_usd=20.0)
    project = install_node_project(tmp_path)
    found = subprocess.run(
        [str(requires_node), "spend.mjs", "127.0.0.1", str(vault.port), key],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    first, over, second = json.loads(found.stdout)
    assert (first, second) == ({"status": "succeeded"}, {"status": "succeeded"})
    assert over["code"] == "spend_cap_reached"
    assert over["type"] == "StripeRateLimitError"
    assert CAP_MESSAGE in over["message"]
    assert vault.moved_cents() == 2000


def install_node_project(directory: Path) -> Path:
    """stripe-node, exactly as its lock file says."""
    npm = shutil.which("npm")
    if npm is None:
        skip_outside_ci("npm is missing: on Debian: apt-get install npm")
    project = shutil.copytree(NODE_PROJECT, directory / "node")
    installed = subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=NPM_SECONDS,
    )
    if installed.returncode != 0:
        skip_outside_ci(f"stripe-node cannot be installed: {installed.stderr[-300:]}")
    return project


@pytest.mark.parametrize("path", ["/stripe", ""])
def test_with_and_without_the_prefix(vault: VaultBench, path: str) -> None:
    client = stripe.StripeClient(
        vault.mint(), base_addresses={"api": f"http://127.0.0.1:{vault.port}{path}"}
    )
    assert client.v1.customers.retrieve("cus_1").id == "cus_1"
