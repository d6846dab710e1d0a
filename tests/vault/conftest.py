"""Fixtures of the proxy's tests."""

from collections.abc import Iterator

import pytest

from local.postgres import DatabaseServer
from local.stripe_simulator import RunningSimulator, serve_in_thread
from tests.support.run_keys import ProxiedBench, proxied_bench
from tests.support.vault import VaultBench


@pytest.fixture(scope="session")
def vault_stripe() -> Iterator[RunningSimulator]:
    """One simulated Stripe for the test process; each test starts it anew."""
    with serve_in_thread() as running:
        yield running


@pytest.fixture(scope="session")
def vault_database_url(
    postgres_server: DatabaseServer, migrated_template_url: str
) -> Iterator[str]:
    """One database for the test process; each test empties what it uses."""
    url = postgres_server.create_database(template=migrated_template_url)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def served_vault(vault_database_url: str, vault_stripe: RunningSimulator) -> Iterator[VaultBench]:
    """One served proxy for the test process; each test starts it anew."""
    bench = VaultBench(vault_database_url, vault_stripe.control, vault_stripe.base_url)
    try:
        with bench.served():
            yield bench
    finally:
        bench.close()


@pytest.fixture
def vault(served_vault: VaultBench) -> VaultBench:
    """A served proxy without a key."""
    served_vault.reset()
    return served_vault


@pytest.fixture
def proxied(vault: VaultBench) -> Iterator[ProxiedBench]:
    """A billing system behind the proxy, whose run has no key yet."""
    with proxied_bench(vault) as proxied:
        yield proxied
