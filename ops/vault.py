"""`chargeonce vault`: the spend-cap proxy and its keys."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ops.arguments import add_command, add_family, whole_number
from ops.errors import PackageMissing
from ops.report import Report

if TYPE_CHECKING:
    from ops.arguments import Commands

MAX_PORT = 65_535
MAX_THREADS = 500
DEFAULT_THREADS = 32


def add_commands(commands: Commands) -> None:
    """Add `vault` and what belongs to it."""
    _, actions = add_family(commands, "vault", "serve the spend-cap proxy, and handle its keys")
    _add_serve(actions)


def _add_serve(actions: Commands) -> None:
    command = add_command(
        actions,
        "serve",
        "serve the spend-cap proxy until it is interrupted",
        serve,
        "chargeonce vault serve --port 8080",
        details="VAULT_PROXY_SERVES says which part of it. Plain HTTP: put it behind something "
        "that speaks TLS. The settings are those of the function vault_proxy: docs/vault.md lists "
        "them.",
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
        help="how many requests are handled at once (%(default)s)",
    )


def serve(arguments: argparse.Namespace) -> Report:
    """Serve until a signal ends it; then the process ends."""
    from shared.decision_log import log_to_stdout
    from shared.vault.wiring import make_application
    from shared.vault.wsgi import as_wsgi

    try:
        from ops.web_server import run_web_server
    except ImportError:
        raise PackageMissing(
            "serving needs gunicorn, which exists for Linux and macOS alone: "
            "`python -m pip install -r requirements.txt`"
        ) from None
    application = as_wsgi(make_application(arguments.threads))
    log_to_stdout()
    address = f"{arguments.host}:{arguments.port}"
    run_web_server(application, address, arguments.threads)
    return Report({"served": address}, lambda _: None)
