"""Both ways to bill from Service Bus, through the spend-cap proxy under their run's vault key."""

from collections.abc import Iterator

import pytest

from local.servicebus_emulator import ServiceBusEmulator
from local.stripe_simulator import RunningSimulator, serve_in_thread
from tests.support.run_keys import ProxiedBench, proxied_bench
from tests.support.servicebus import COMPLETED, Desk, running_consumer, wait_until
from tests.support.vault import VaultBench


@pytest.fixture
def stripe() -> Iterator[RunningSimulator]:
    """A simulated Stripe of the test's own."""
    with serve_in_thread() as running:
        yield running


@pytest.fixture
def proxied(migrated_database_url: str, stripe: RunningSimulator) -> Iterator[ProxiedBench]:
    """Records and a served proxy over one database; the run has no key yet."""
    vault = VaultBench(migrated_database_url, stripe.control, stripe.base_url)
    try:
        with vault.served(), proxied_bench(vault) as proxied:
            yield proxied
    finally:
        vault.close()


@pytest.fixture
def desk(
    proxied: ProxiedBench, stripe: RunningSimulator, emulator: ServiceBusEmulator
) -> Iterator[Desk]:
    """A queue whose consumers have no key of Stripe's."""
    desk = Desk(proxied.vault.database_url, stripe, emulator, "own")
    del desk.environment["STRIPE_API_KEY"], desk.environment["STRIPE_API_BASE"]
    desk.environment.update(proxied.environment)
    yield desk
    desk.forget()
    desk.close()


def assert_left_without_a_key(desk: Desk, proxied: ProxiedBench) -> None:
    """An event comes before its run's key: nothing goes to Stripe, and the lock brings it back."""
    desk.send(desk.customer("proxied"), "proxied")
    wait_until(lambda: desk.state("proxied") == "in_progress")
    assert desk.settlements("proxied") == []
    assert proxied.vault.upstream.sent == []


def assert_charged_once(desk: Desk, proxied: ProxiedBench) -> None:
    """The lock brings it back; it is charged, through the proxy, and completed."""
    desk.lapse_lease("proxied")
    desk.lapse_locks()
    desk.wait_for("proxied", COMPLETED)
    assert desk.charged_cents("proxied") == [5000]
    assert proxied.vault.money() == (0, 5000)


@pytest.mark.usefixtures("requires_functions_runtime")
def test_the_function_app_mints_and_bills(desk: Desk, proxied: ProxiedBench) -> None:
    """Goal: the app's own timer mints the key that its trigger then charges with."""
    from local.functions_host.host import FunctionsHost

    with FunctionsHost(desk.environment) as host:
        assert_left_without_a_key(desk, proxied)
        assert host.fire("mint_vault_key") is None
        assert_charged_once(desk, proxied)
        assert host.failures == []
    assert len(proxied.live_keys()) == 1


def test_the_consumer_bills(desk: Desk, proxied: ProxiedBench) -> None:
    """Goal: the same from a container, which needs no right to mint."""
    del desk.environment["VAULT_PROXY_API_KEY"]
    with running_consumer(desk.environment):
        assert_left_without_a_key(desk, proxied)
        proxied.keeper().keep()
        assert_charged_once(desk, proxied)
