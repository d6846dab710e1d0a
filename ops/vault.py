"""`chargeonce vault`: the spend-cap proxy and its keys."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ops.amounts import format_amount
from ops.arguments import (
    add_command,
    add_dry_run,
    add_family,
    add_limit,
    add_period,
    cents,
    whole_number,
)
from ops.errors import NotFound, PackageMissing, Refused
from ops.report import Report

if TYPE_CHECKING:
    from rich.console import Console

    from ops.arguments import Commands
    from shared.settings import VaultServiceSettings
    from shared.vault.keys import KeyRequest
    from shared.vault.service import ListedKey, MintedKey, VaultService
    from shared.vault.wiring import VaultParts

MAX_PORT = 65_535
MAX_THREADS = 500
MAX_PROCESSES = 64
DEFAULT_THREADS = 32
MAX_HOURS = 24 * 366
DEFAULT_HOURS = 6
MAX_CALLS = 1000
DEFAULT_CALLS = 50
CURRENCY = "usd"
RESOLVE_SECONDS = 60.0

_HEADINGS = {
    "expires_at": "ends",
    "daily_cap_cents": "daily cap",
    "held_cents": "held",
    "spent_cents": "spent",
    "amount_cents": "amount",
    "latency_milliseconds": "ms",
}


def add_commands(commands: Commands) -> None:
    """Add `vault` and what belongs to it."""
    _, actions = add_family(commands, "vault", "serve the spend-cap proxy, and handle its keys")
    _add_mint(actions)
    listing = add_command(
        actions,
        "list",
        "list vault keys with what they held and spent",
        list_keys,
        "chargeonce vault list\nchargeonce vault list --label usage-billing-2026-11",
    )
    listing.add_argument("--label", metavar="TEXT", help="only keys with this label")
    _add_revoke(actions)
    calls = add_command(
        actions,
        "calls",
        "show the latest calls of a vault key",
        show_calls,
        "chargeonce vault calls 0123456789abcdef --limit 20",
    )
    calls.add_argument("key", metavar="ID", help="the key's id, as `vault list` shows it")
    add_limit(calls, "show the newest N calls", DEFAULT_CALLS, MAX_CALLS)
    _add_serve(actions)


def _add_mint(actions: Commands) -> None:
    command = add_command(
        actions,
        "mint",
        "mint a vault key by hand",
        mint,
        "chargeonce vault mint --period 2026-11 --cap-cents 550000\n"
        "chargeonce vault mint --period 2026-11 --cap-cents 90000 --endpoint /v1/charges --hours 2",
        details="The key is printed once and stored nowhere here. A key stops at its cap, at its "
        "end, or when it is revoked. The caps count US cents.",
    )
    add_period(command)
    command.add_argument(
        "--cap-cents",
        type=cents,
        required=True,
        metavar="CENTS",
        help="the most that it may spend, in a day and over its life",
    )
    command.add_argument(
        "--hours",
        type=whole_number(MAX_HOURS),
        default=DEFAULT_HOURS,
        metavar="N",
        help="how long it works (%(default)s)",
    )
    command.add_argument(
        "--endpoint",
        action="append",
        metavar="PATH",
        help="what it may call, * for one segment; may be repeated (default: what the two-step "
        "flow calls)",
    )
    add_dry_run(command)


def _add_revoke(actions: Commands) -> None:
    command = add_command(
        actions,
        "revoke",
        "revoke a vault key: its next call is refused",
        revoke,
        "chargeonce vault revoke 0123456789abcdef",
    )
    command.add_argument("key", metavar="ID", help="the key's id, as `vault list` shows it")
    add_dry_run(command)


def _add_serve(actions: Commands) -> None:
    command = add_command(
        actions,
        "serve",
        "serve the spend-cap proxy until it is interrupted",
        serve,
        "chargeonce vault serve --port 8080",
        details="VAULT_PROXY_SERVES says which part of it. Plain HTTP: put it behind something "
        "that speaks TLS and waits for slow callers in its place. The settings are those of the "
        "function vault_proxy: docs/vault.md lists them.",
    )
    command.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="where to listen (%(default)s)"
    )
    command.add_argument(
        "--port", type=whole_number(MAX_PORT), default=8080, metavar="N", help="(%(default)s)"
    )
    command.add_argument(
        "--threads",
        type=whole_number(MAX_THREADS),
        default=DEFAULT_THREADS,
        metavar="N",
        help="how many requests each process handles at once (%(default)s)",
    )
    command.add_argument(
        "--processes",
        type=whole_number(MAX_PROCESSES),
        default=1,
        metavar="N",
        help="one for each core lets it use them all (%(default)s)",
    )


def mint(arguments: argparse.Namespace) -> Report:
    """Mint a key, and print it once."""
    from shared.vault.catalogue import is_pattern

    for path in arguments.endpoint or ():
        if not is_pattern(path):
            raise Refused(f"{path} is no endpoint: give a path such as /v1/payment_intents/*")
    with _open_service() as (service, settings):
        request = _key_request(arguments, settings.key_namespace)
        made = None if arguments.dry_run else service.mint(request)
    document: dict[str, object] = {
        "label": request.label,
        "cap_cents": arguments.cap_cents,
        "expires_at": request.expires_at.isoformat(),
        "allowed_endpoints": list(request.allowed_endpoints),
        "dry_run": arguments.dry_run,
    }
    if made is not None:
        document |= {"id": made.key_id, "vault_key": made.text}

    return Report(document, lambda console: _print_minted(console, request, made))


def _print_minted(console: Console, request: KeyRequest, made: MintedKey | None) -> None:
    from ops.tables import print_facts

    first, *others = request.allowed_endpoints
    facts = [
        ("label", request.label),
        ("cap", format_amount(request.daily_cap_cents, CURRENCY)),
        ("ends", _moment(request.expires_at.isoformat())),
        ("may call", first),
        *(("", path) for path in others),
    ]
    if made is None:
        print_facts(console, facts)
        return
    print_facts(console, [("id", made.key_id), *facts])
    console.print("The key, which is shown this once:")
    # Folded or cut it would be lost.
    console.print(made.text, soft_wrap=True)


def list_keys(arguments: argparse.Namespace) -> Report:
    """List keys, newest first."""
    with _open_service() as (service, _):
        keys = service.list_keys(arguments.label)
    if keys is None:
        raise Refused("this service does not list its keys; its dashboard may")
    documents = [_key_document(key) for key in keys]
    columns = ("id", "state", "expires_at", "daily_cap_cents", "held_cents", "spent_cents", "label")
    return Report({"keys": documents}, lambda console: _print_rows(console, columns, documents))


def revoke(arguments: argparse.Namespace) -> Report:
    """Revoke a key; one that is revoked already stays so."""
    with _open_service() as (service, _):
        if not arguments.dry_run and not service.revoke(arguments.key):
            raise NotFound(f"there is no vault key {arguments.key}")
    done = "would revoke" if arguments.dry_run else "revoked"
    headline = f"{done} vault key {arguments.key}"
    document = {"id": arguments.key, "revoked": not arguments.dry_run, "dry_run": arguments.dry_run}
    return Report(document, lambda console: console.print(headline))


def show_calls(arguments: argparse.Namespace) -> Report:
    """Show a key's latest calls, newest first."""
    with _open_service() as (service, _):
        calls = service.list_calls(arguments.key, arguments.limit)
    if calls is None:
        raise NotFound(f"there is no vault key {arguments.key}, or this service lists no calls")
    columns = ("time", "verdict", "status", "amount_cents", "latency_milliseconds", "endpoint")
    return Report({"calls": list(calls)}, lambda console: _print_rows(console, columns, calls))


def serve(arguments: argparse.Namespace) -> Report:
    """Serve until a signal ends it; then the process ends."""
    from shared.decision_log import log_to_stdout
    from shared.settings import read_vault_proxy_settings
    from shared.vault.wiring import VaultParts
    from shared.vault.wsgi import as_wsgi

    try:
        from ops.web_server import run_web_server
    except ImportError:
        raise PackageMissing(
            "serving needs gunicorn, which exists for Linux and macOS alone: "
            "`python -m pip install -r requirements.txt`"
        ) from None
    settings = read_vault_proxy_settings()
    parts = VaultParts(settings, arguments.threads)
    log_to_stdout()
    address = f"{arguments.host}:{arguments.port}"
    beside = partial(_keep_resolving, parts) if settings.serves_calls else None
    application = as_wsgi(parts.application)
    run_web_server(application, address, arguments.threads, arguments.processes, beside)
    return Report({"served": address}, lambda _: None)


def _keep_resolving(parts: VaultParts) -> None:
    """What the function `reconcile` does elsewhere, for as long as the process lives."""
    from shared import notices
    from shared.decision_log import describe_defect
    from shared.errors import ChargeonceError

    while True:
        try:
            parts.keep_up()
        except ChargeonceError as error:
            notices.alarm(f"holds are not resolved now: {error}")
        except Exception as error:  # noqa: BLE001 (the next round may do)
            notices.alarm(f"holds could not be resolved: {describe_defect(error)}")
        time.sleep(RESOLVE_SECONDS)


@contextmanager
def _open_service() -> Iterator[tuple[VaultService, VaultServiceSettings]]:
    from shared.settings import read_vault_service_settings
    from shared.vault.client import VaultClient

    settings = read_vault_service_settings()
    service = VaultClient(settings.url, settings.api_key)
    try:
        yield service, settings
    finally:
        service.close()


def _key_request(arguments: argparse.Namespace, key_namespace: str) -> KeyRequest:
    from datetime import UTC, datetime, timedelta

    from shared.vault.catalogue import TWO_STEP_ENDPOINTS
    from shared.vault.keys import KeyRequest

    return KeyRequest(
        label=f"{key_namespace}-{arguments.period}",
        allowed_endpoints=tuple(arguments.endpoint or TWO_STEP_ENDPOINTS),
        daily_cap_cents=arguments.cap_cents,
        total_cap_cents=arguments.cap_cents,
        expires_at=datetime.now(UTC) + timedelta(hours=arguments.hours),
    )


def _key_document(key: ListedKey) -> dict[str, object]:
    from datetime import UTC, datetime

    state = "revoked" if key.revoked_at else "live"
    if state == "live" and not key.is_live(datetime.now(UTC)):
        state = "expired"
    return {
        "id": key.key_id,
        "label": key.label,
        "daily_cap_cents": key.daily_cap_cents,
        "total_cap_cents": key.total_cap_cents,
        "held_cents": key.held_cents,
        "spent_cents": key.spent_cents,
        "spent_today_cents": key.spent_today_cents,
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "state": state,
    }


def _print_rows(
    console: Console, columns: Sequence[str], documents: Sequence[Mapping[str, Any]]
) -> None:
    from ops.tables import print_rows

    headings = [_HEADINGS.get(column, column) for column in columns]
    lines = [[_told(column, document.get(column)) for column in columns] for document in documents]
    print_rows(console, headings, lines, unfolded=True)


def _told(column: str, value: object) -> str:
    if column.endswith("_cents") and isinstance(value, int):
        return format_amount(value, CURRENCY)
    if column in ("time", "expires_at") and isinstance(value, str):
        return _moment(value)
    return "" if value is None else str(value)


def _moment(text: str) -> str:
    """A moment for people; a hosted service may write it otherwise, and then as it does."""
    from datetime import UTC, datetime

    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return text
