"""What the spend-cap proxy costs beside the same calls without it, in one run.

The proxy is the process that `chargeonce vault serve` is, between one-step charges over kept
connections and the simulated Stripe, on a real PostgreSQL that really writes.
"""

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from statistics import median, quantiles
from urllib.parse import urlencode, urlsplit

import psutil

from local.postgres import database_server
from local.stripe_simulator import CustomerSeed, SimulatorProcess
from shared.store.migrations import migrate

PACED_PER_SECOND = 50
PACED_SECONDS = 10
CALLS = 10_000
THREADS = 8
START_SECONDS = 60
ADMIN_TOKEN = "an-admin-token-of-the-benchmark"
STRIPE_KEY = "rk_test_benchmark"
MOST_TIMES_THE_SIMULATOR = 8.0


@dataclass(frozen=True)
class Target:
    """Where charges are sent to."""

    port: int
    key: str
    process: psutil.Process

    def connect(self) -> HTTPConnection:
        """A connection that is kept."""
        return HTTPConnection("127.0.0.1", self.port, timeout=60)

    @property
    def processes(self) -> list[psutil.Process]:
        """It and its workers."""
        return [self.process, *self.process.children(recursive=True)]

    @property
    def cpu_seconds(self) -> float:
        """What it has used so far."""
        times = [process.cpu_times() for process in self.processes]
        return sum(one.user + one.system for one in times)

    @property
    def megabytes(self) -> float:
        """The resident memory of its largest process."""
        return max(process.memory_info().rss for process in self.processes) / 1e6


def charge(connection: HTTPConnection, target: Target) -> float:
    """Make a charge and return how many milliseconds it took."""
    headers = {
        "Authorization": f"Bearer {target.key}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Idempotency-Key": str(uuid.uuid4()),
    }
    body = urlencode({"amount": "100", "currency": "usd", "customer": "cus_1"})
    started = time.perf_counter()
    connection.request("POST", "/v1/charges", body, headers)
    response = connection.getresponse()
    content = response.read()
    assert response.status == 200, content
    return (time.perf_counter() - started) * 1000


def pace(target: Target) -> list[float]:
    """Charge at a steady rate, and return how many milliseconds each took."""
    milliseconds: list[float] = []
    begun = time.perf_counter()

    def run(number: int) -> None:
        connection = target.connect()
        for turn in range(PACED_PER_SECOND * PACED_SECONDS // THREADS):
            due = begun + (turn * THREADS + number) / PACED_PER_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            milliseconds.append(charge(connection, target))
        connection.close()

    in_threads(run)
    return milliseconds


def rush(target: Target) -> float:
    """Make `CALLS` charges as fast as they go, and return how many of them fit into a second."""

    def run(_: int) -> None:
        connection = target.connect()
        for _ in range(CALLS // THREADS):
            charge(connection, target)
        connection.close()

    begun = time.perf_counter()
    in_threads(run)
    return CALLS / (time.perf_counter() - begun)


def in_threads(run: Callable[[int], None]) -> None:
    """Run it in every thread at once."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))


@contextmanager
def served_proxy(database_url: str, stripe_url: str) -> Iterator[Target]:
    """The proxy in a process of its own, with a key that may spend enough."""
    environment = {
        **os.environ,
        "DATABASE_URL": database_url,
        "STRIPE_API_KEY": STRIPE_KEY,
        "STRIPE_API_BASE": stripe_url,
        "VAULT_PROXY_SERVES": "both",
        "VAULT_ADMIN_TOKEN": ADMIN_TOKEN,
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    command = [sys.executable, "-m", "ops", "vault", "serve", "--port", str(port)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield Target(port, mint(port), psutil.Process(process.pid))
        finally:
            process.terminate()


def mint(port: int) -> str:
    """Wait for the proxy, and mint a key."""
    asked = {
        "label": "benchmark",
        "daily_usd_cap": 1_000_000,
        "allowed_endpoints": ["/v1/charges"],
        "expires_at": (datetime.now(UTC) + timedelta(hours=6)).isoformat(),
    }
    give_up = time.monotonic() + START_SECONDS
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
            connection.request("POST", "/vault/keys", json.dumps(asked), headers)
            return str(json.loads(connection.getresponse().read())["vault_key"])
        except ConnectionError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)
        finally:
            connection.close()


def main() -> int:
    """Measure, print, judge."""
    with database_server() as server, SimulatorProcess() as simulator:
        simulator.control.seed_customers(CustomerSeed(ids=["cus_1"], source="tok_visa"))
        stripe_port = urlsplit(simulator.base_url).port
        assert stripe_port is not None
        direct = Target(stripe_port, STRIPE_KEY, psutil.Process(simulator.pid))
        url = server.create_database()
        migrate(url)
        with served_proxy(url, simulator.base_url) as proxy:
            pace(proxy)
            bare, through = pace(direct), pace(proxy)
            cpu_before, simulator_before = proxy.cpu_seconds, direct.cpu_seconds
            per_second = rush(proxy)
            cpu = (proxy.cpu_seconds - cpu_before) / CALLS * 1000
            yardstick = (direct.cpu_seconds - simulator_before) / CALLS * 1000
            megabytes = proxy.megabytes
    for name, milliseconds in (("without the proxy", bare), ("through the proxy", through)):
        print(
            f"{name:32}{median(milliseconds):9.2f} ms median"
            f"{quantiles(milliseconds, n=100)[98]:9.2f} ms p99 at {PACED_PER_SECOND}/s"
        )
    ratio = cpu / yardstick
    print(
        f"{'as fast as they go':32}{per_second:8.0f}/s{cpu:8.2f} ms CPU of one core a call"
        f"{ratio:7.2f} x the simulator's{megabytes:7.0f} MB after {CALLS:,} calls"
    )
    if ratio > MOST_TIMES_THE_SIMULATOR:
        print(f"the proxy takes more than {MOST_TIMES_THE_SIMULATOR} times the simulator's CPU")
        return 1
    return 0
