"""The admin API: who may, what is asked for, and what is never shown again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.vault import ADMIN_TOKEN, CHARGE, ENDPOINTS, VaultBench

GOOD: dict[str, Any] = {
    "vendor": "stripe",
    "label": "usage-billing-2026-11",
    "daily_usd_cap": 5500.0,
    "allowed_endpoints": ENDPOINTS,
    "expires_at": "2099-11-30T18:00:00Z",
}


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer x", f"Basic {ADMIN_TOKEN}", f"Bearer {ADMIN_TOKEN}x", "Bearer \xff"],
)
def test_only_with_its_own_token(vault: VaultBench, authorization: str) -> None:
    answer = vault.raw("GET", "/vault/keys", {"Authorization": authorization})
    assert answer.status == 401
    assert ADMIN_TOKEN not in str(answer)


def test_a_vault_key_opens_no_admin_api(vault: VaultBench) -> None:
    key = vault.mint()
    assert vault.raw("GET", "/vault/keys", {"Authorization": f"Bearer {key}"}).status == 401


def test_the_admin_token_opens_no_calls(vault: VaultBench) -> None:
    assert vault.post(ADMIN_TOKEN, "/v1/charges", CHARGE).status == 401


def test_a_key_is_shown_once(vault: VaultBench) -> None:
    minted = vault.admin("POST", "/vault/keys", GOOD)
    assert minted.status == 201
    assert minted.headers["cache-control"] == "no-store"
    token = minted.document["vault_key"]
    assert token.startswith("vault_key_")
    assert minted.document["daily_usd_cap"] == 5500.0
    listed = vault.admin("GET", "/vault/keys?label=usage-billing-2026-11")
    assert [key["id"] for key in listed.document["data"]] == [minted.document["id"]]
    assert token.split("_", 3)[3] not in str(listed)
    assert vault.admin("GET", "/vault/keys?label=other").document["data"] == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vendor", "paypal"),
        ("label", ""),
        ("label", "x" * 201),
        ("label", "two\nlines"),
        ("label", 5),
        ("daily_usd_cap", 0),
        ("daily_usd_cap", -1),
        ("daily_usd_cap", 0.001),
        ("daily_usd_cap", "5"),
        ("daily_usd_cap", True),
        ("daily_usd_cap", None),
        ("daily_usd_cap", 1e300),
        ("total_usd_cap", 0.005),
        ("allowed_endpoints", []),
        ("allowed_endpoints", "/v1/charges"),
        ("allowed_endpoints", ["/v1/charges/.."]),
        ("allowed_endpoints", ["/v1/**"]),
        ("allowed_endpoints", ["v1/charges"]),
        ("allowed_endpoints", ["/v2/charges"]),
        ("allowed_endpoints", ["/v1/charges"] * 51),
        ("expires_at", "tomorrow"),
        ("expires_at", "2026-11-30T18:00:00"),
        ("expires_at", None),
        ("merchant", "acct_1"),
    ],
)
def test_what_is_wrong_is_named(vault: VaultBench, field: str, value: object) -> None:
    answer = vault.admin("POST", "/vault/keys", {**GOOD, field: value})
    assert answer.status == 400
    assert answer.document["error"]["param"] == field
    assert vault.records.list_keys(None, 10) == []


def test_revoking_is_at_once_and_may_be_repeated(vault: VaultBench) -> None:
    key = vault.mint()
    key_id = vault.key_row().key_id
    assert vault.post(key, "/v1/charges", CHARGE).status == 200
    for _ in range(2):
        answer = vault.admin("DELETE", f"/vault/keys/{key_id}")
        assert (answer.status, answer.document) == (200, {"id": key_id, "revoked": True})
    assert vault.post(key, "/v1/charges", CHARGE).code == "vault_key_revoked"
    assert vault.admin("DELETE", f"/vault/keys/{'0' * 16}").status == 404


def test_every_call_leaves_a_line(vault: VaultBench) -> None:
    key = vault.mint(daily_usd=15.0)
    vault.post(key, "/v1/charges", CHARGE)
    vault.post(key, "/v1/charges", CHARGE)
    vault.post(key, "/v1/refunds", {"charge": "ch_1"})
    vault.get(key, "/v1/customers/cus_1")
    path = f"/vault/keys/{vault.key_row().key_id}/calls"
    lines = vault.admin("GET", path).document["data"]
    assert [(line["endpoint"], line["verdict"], line["status"]) for line in lines] == [
        ("GET /v1/customers/cus_1", "admitted", 200),
        ("POST /v1/refunds", "endpoint_not_allowed", None),
        ("POST /v1/charges", "over_daily_cap", None),
        ("POST /v1/charges", "admitted", 200),
    ]
    charged = lines[-1]
    assert charged["amount_cents"] == 1000
    assert charged["effect"] == "spent"
    assert charged["request_id"].startswith("req_")
    assert charged["latency_milliseconds"] >= 0
    older = vault.admin("GET", f"{path}?limit=1&before={charged['time'].replace('+', '%2B')}")
    assert older.document["data"] == []


def test_the_admin_api_has_a_rate_limit(vault: VaultBench) -> None:
    statuses = [vault.raw("GET", "/vault/keys", {}).status for _ in range(60)]
    assert statuses[0] == 401
    assert 429 in statuses


def test_expiry_is_a_moment(vault: VaultBench) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    vault.mint(expires_at=soon.isoformat())
    assert vault.key_row().expires_at == soon
