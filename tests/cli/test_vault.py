"""`chargeonce vault`: the proxy as a process, and its keys."""

import os
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ops.exit_codes import ExitCode
from tests.cli.conftest import CommandLine
from tests.support.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60


def test_serve_answers_until_it_is_told_to_end(migrated_database_url: str, tmp_path: Path) -> None:
    port = free_port()
    environment = {
        **os.environ,
        "DATABASE_URL": migrated_database_url,
        "STRIPE_API_KEY": "rk_test_of_the_test",
        "VAULT_PROXY_SERVES": "both",
        "VAULT_ADMIN_TOKEN": "a-token-of-more-than-24-characters",
    }
    command = [sys.executable, "-m", "ops", "vault", "serve", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        served = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            assert get(port, "/healthz", served) == 200
            assert get(port, "/v1/charges", served) == 401
            assert get(port, "/vault/keys", served) == 401
            assert get(port, "/elsewhere", served) == 403
        finally:
            served.send_signal(signal.SIGTERM)
            code = served.wait(START_SECONDS)
    text = (tmp_path / "log").read_text()
    assert code == ExitCode.OK, text
    assert "rk_test" not in text


def test_serve_says_what_is_missing(without_database: CommandLine) -> None:
    ran = without_database("vault", "serve", "--json")
    assert ran.code == ExitCode.SETTINGS
    for name in ("VAULT_PROXY_SERVES", "DATABASE_URL"):
        assert name in ran.document["error"]["message"]


@pytest.mark.parametrize("arguments", [["--port", "0"], ["--port", "70000"], ["--threads", "x"]])
def test_serve_refuses_what_it_cannot_do(
    without_database: CommandLine, arguments: list[str]
) -> None:
    assert without_database("vault", "serve", *arguments).code == ExitCode.USAGE


def get(port: int, path: str, served: subprocess.Popen[bytes]) -> int:
    """Ask, and wait for the process to be up."""
    give_up = time.monotonic() + START_SECONDS
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except ConnectionError:
            assert served.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.05)
        finally:
            connection.close()


@pytest.mark.parametrize("action", [["list"], ["revoke", "x"], ["calls", "x"]])
def test_without_a_service(without_database: CommandLine, action: list[str]) -> None:
    ran = without_database("vault", *action, "--json")
    assert ran.code == ExitCode.SETTINGS
    for name in ("VAULT_PROXY_URL", "VAULT_PROXY_API_KEY"):
        assert name in ran.document["error"]["message"]
