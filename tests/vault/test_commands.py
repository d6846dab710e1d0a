"""`chargeonce vault mint|list|revoke|calls` before the real proxy, over HTTP."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ops.exit_codes import ExitCode
from shared.vault.catalogue import TWO_STEP_ENDPOINTS
from tests.cli.conftest import CommandLine
from tests.support.vault import ADMIN_TOKEN, CHARGE, VaultBench

ROOT = Path(__file__).resolve().parents[2]
MINT = ("vault", "mint", "--period", "2026-11", "--cap-cents", "1500")


@pytest.fixture
def keys(
    vault: VaultBench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command line before a served proxy without a key."""
    monkeypatch.setenv("VAULT_PROXY_URL", f"http://127.0.0.1:{vault.port}")
    monkeypatch.setenv("VAULT_PROXY_API_KEY", ADMIN_TOKEN)
    monkeypatch.delenv("BILLING_KEY_NAMESPACE", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    return CommandLine(capsys)


def test_mint_use_list_calls_and_revoke(keys: CommandLine, vault: VaultBench) -> None:
    minted = keys(*MINT, "--endpoint", "/v1/charges", "--json").document
    assert minted["label"] == "usage-billing-2026-11"
    assert vault.post(minted["vault_key"], "/v1/charges", CHARGE).status == 200
    assert vault.post(minted["vault_key"], "/v1/charges", CHARGE).status == 429
    (listed,) = keys("vault", "list", "--label", minted["label"], "--json").document["keys"]
    assert (listed["id"], listed["state"]) == (minted["id"], "live")
    assert (listed["spent_cents"], listed["total_cap_cents"]) == (1000, 1500)
    calls = keys("vault", "calls", minted["id"], "--json").document["calls"]
    assert [call["verdict"] for call in calls] == ["over_total_cap", "admitted"]
    assert minted["id"] in keys("vault", "list").stdout
    assert "admitted" in keys("vault", "calls", minted["id"]).stdout
    assert keys("vault", "revoke", minted["id"], "--json").document["revoked"] is True
    assert vault.post(minted["vault_key"], "/v1/charges", CHARGE).status == 401
    (listed,) = keys("vault", "list", "--json").document["keys"]
    assert listed["state"] == "revoked"
    assert minted["id"] not in keys("vault", "list", "--label", "other").stdout


def test_a_minted_key_is_shown_once_to_people(keys: CommandLine) -> None:
    shown = keys(*MINT)
    assert shown.code == ExitCode.OK
    assert "vault_key_" in shown.stdout
    assert "vault_key_" not in keys("vault", "list").stdout


def test_what_is_copied_from_a_pipe_is_whole(
    keys: CommandLine, vault: VaultBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: off a terminal, on narrow lines, the key that is printed only once can be used."""
    monkeypatch.setenv("COLUMNS", "60")
    command = [sys.executable, "-m", "ops", *MINT]
    minted = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    (key,) = [line for line in minted.splitlines() if line.startswith("vault_key_")]
    assert vault.post(key, "/v1/payment_intents", CHARGE, "key-1").status == 200
    assert vault.post(key, "/v1/charges", CHARGE).status == 403
    assert "15.00 USD" in minted
    key_id = vault.key_row().key_id
    listed = [line.split() for line in keys("vault", "list").stdout.splitlines()]
    (row,) = [row for row in listed if key_id in row]
    assert row[:2] == [key_id, "live"]
    assert row[-1] == "usage-billing-2026-11"
    assert " ".join(row[5:11]) == "15.00 USD 0.00 USD 0.00 USD"
    calls = keys("vault", "calls", key_id).stdout
    assert re.search(r"2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d UTC .*endpoint_not_allowed", calls)
    assert "POST /v1/payment_intents " in calls


def test_a_dry_run_mints_and_revokes_nothing(keys: CommandLine, vault: VaultBench) -> None:
    planned = keys(*MINT, "--dry-run", "--json").document
    assert "vault_key" not in planned
    assert planned["allowed_endpoints"] == list(TWO_STEP_ENDPOINTS)
    assert vault.records.list_keys(None, 10) == []
    made = keys(*MINT, "--json").document
    keys("vault", "revoke", made["id"], "--dry-run")
    assert vault.key_row().revoked_at is None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["vault", "revoke", "0" * 16], ExitCode.FAILED),
        (["vault", "mint", "--period", "2026-11", "--cap-cents", "0"], ExitCode.USAGE),
        (["vault", "mint", "--period", "2026-11"], ExitCode.USAGE),
        (["vault", "mint", "--period", "2026-11", "--cap-cents", "5", "--hours", "0"], 2),
        (
            ["vault", "mint", "--period", "2026-11", "--cap-cents", "5", "--endpoint", "/v1/../x"],
            ExitCode.FAILED,
        ),
    ],
)
def test_what_is_refused(keys: CommandLine, arguments: list[str], code: int) -> None:
    assert keys(*arguments).code == code


def test_a_wrong_token_is_told_without_it(
    keys: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_PROXY_API_KEY", "not-the-token")
    ran = keys("vault", "list")
    assert ran.code == ExitCode.FAILED
    assert "401" in ran.stderr
    assert "not-the-token" not in ran.stderr
