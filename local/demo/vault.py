"""The demo's second part: the spend-cap proxy, and a program that has gone wild with its key.

The program is nobody's friend: an unmodified Stripe SDK that asks for money until it is refused.
"""

import random
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import stripe

from local.demo.books import VaultBooks
from local.demo.errors import DemoFailed
from local.demo.plan import CURRENCY
from local.demo.screen import Screen
from local.demo.waiting import wait_until
from local.demo.workers import Workers
from local.stripe_simulator import ControlClient, CustomerSeed
from shared.vault.client import VaultClient
from shared.vault.keys import KeyRequest
from shared.vault.refusal import RefusalCode
from shared.vault.service import MintedKey

ADMIN_TOKEN: Final = "admin-token-of-the-demo-alone"
CUSTOMER_ID: Final = "cus_wild"
CARD: Final = "pm_card_visa"
ENDPOINTS: Final = ("/v1/payment_intents",)
CAP_CENTS: Final = 60_000
LEAST_AMOUNT_CENTS: Final = 100
MOST_AMOUNT_CENTS: Final = 4_000
REVOKED_AFTER_CHARGES: Final = 10
MOST_CHARGES: Final = 1_000
THREADS: Final = 6
START_SECONDS: Final = 30.0
CHARGE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class VaultProxy:
    """`chargeonce vault serve` as a process.

    Attributes:
        port: Where it listens, some time after its start.
    """

    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        """Whether it is up."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)) as connection:
            try:
                connection.request("GET", "/healthz")
                return connection.getresponse().status == 200
            except OSError:
                return False


def start_proxy(
    stack: ExitStack, database_url: str, stripe_url: str, log_directory: Path
) -> VaultProxy:
    """Start the proxy, and do not wait for it.

    Args:
        stack: Ends it.
        database_url: Where its records are.
        stripe_url: Where it forwards to.
        log_directory: Where its log goes.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    settings = {
        "DATABASE_URL": database_url,
        "STRIPE_API_KEY": "rk_test_demo",
        "STRIPE_API_BASE": stripe_url,
        "VAULT_PROXY_SERVES": "both",
        "VAULT_ADMIN_TOKEN": ADMIN_TOKEN,
    }
    log = stack.enter_context((log_directory / "vault.log").open("wb"))
    process = Workers(("ops", "vault", "serve", "--port", str(port)), settings, 1, log)
    stack.callback(process.stop)
    process.start()
    return VaultProxy(port)


def go_wild(proxy: VaultProxy, control: ControlClient, seed: int, screen: Screen) -> VaultBooks:
    """Let a program spend as fast as it can: twice its key's cap, and with a key that is revoked.

    Args:
        proxy: What stands between it and Stripe.
        control: Stripe's.
        seed: Repeats the amounts.
        screen: Where the demo tells how far it is.

    Raises:
        DemoFailed: The proxy did not come up, or nothing was charged in time.
    """
    screen.show_progress("a program gone wild, behind the proxy", 0, 2)
    if not wait_until(proxy.answers, START_SECONDS):
        raise DemoFailed("the spend-cap proxy did not start")
    control.seed_customers(CustomerSeed(ids=[CUSTOMER_ID], payment_method=CARD))
    amounts = list(_amounts(random.Random(f"vault:{seed}"), 2 * CAP_CENTS))
    with closing(VaultClient(proxy.url, ADMIN_TOKEN)) as service:
        begin = len(control.ledger())
        codes = _spend(proxy, _mint(service, CAP_CENTS), amounts)
        charged_cents = sum(entry.amount for entry in control.ledger(since=begin))
        screen.show_progress("a program gone wild, behind the proxy", 1, 2)
        revoked = _revoke_in_the_middle(proxy, service, control)
    screen.say("A program with a vault key asked for twice what the key allows, and another")
    screen.say("one's key was revoked in the middle: the proxy stopped both.")
    return VaultBooks(
        cap_cents=CAP_CENTS,
        asked_cents=sum(amounts),
        charged_cents=charged_cents,
        largest_cents=max(amounts),
        refused_by_cap=codes.count(RefusalCode.CAP_REACHED),
        charges_before_revocation=revoked.before,
        charges_after_revocation=revoked.after,
        refused_after_revocation=revoked.refused,
    )


def _amounts(chance: random.Random, total_cents: int) -> Iterator[int]:
    """Amounts that come to a total or a little more."""
    while total_cents > 0:
        amount_cents = chance.randint(LEAST_AMOUNT_CENTS, MOST_AMOUNT_CENTS)
        total_cents -= amount_cents
        yield amount_cents


def _mint(service: VaultClient, cap_cents: int) -> MintedKey:
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    return service.mint(KeyRequest("demo", ENDPOINTS, cap_cents, cap_cents, expires_at))


def _client(proxy: VaultProxy, key: MintedKey) -> stripe.StripeClient:
    # As anybody would: the address and the key are all that is changed.
    return stripe.StripeClient(key.text, base_addresses={"api": f"{proxy.url}/stripe"})


def _charge(client: stripe.StripeClient, amount_cents: int) -> str | None:
    """Charge; None if the money moved, else the error's code."""
    try:
        client.v1.payment_intents.create(
            {
                "amount": amount_cents,
                "currency": CURRENCY,
                "customer": CUSTOMER_ID,
                "payment_method": CARD,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                "confirm": True,
                "off_session": True,
            }
        )
    except stripe.StripeError as error:
        # Not the exception's own, which some of its kinds leave out.
        code = error.error.code if error.error else None
        return code or type(error).__name__
    return None


def _spend(proxy: VaultProxy, key: MintedKey, amounts: Sequence[int]) -> list[str | None]:
    client = _client(proxy, key)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda amount_cents: _charge(client, amount_cents), amounts))


@dataclass(frozen=True, slots=True)
class _Revocation:
    before: int
    after: int
    refused: int


def _revoke_in_the_middle(
    proxy: VaultProxy, service: VaultClient, control: ControlClient
) -> _Revocation:
    """Revoke a key while it is spent with; each thread goes on until it is refused."""
    key = _mint(service, MOST_CHARGES * LEAST_AMOUNT_CENTS)
    client, is_revoked = _client(proxy, key), threading.Event()

    def spend() -> list[tuple[bool, str | None]]:
        charges: list[tuple[bool, str | None]] = []
        while not charges or charges[-1][1] is None:
            is_after = is_revoked.is_set()
            charges.append((is_after, _charge(client, LEAST_AMOUNT_CENTS)))
        return charges

    begin = len(control.ledger())
    with ThreadPoolExecutor(THREADS) as pool:
        spending = [pool.submit(spend) for _ in range(THREADS)]
        has_begun = wait_until(
            lambda: len(control.ledger()) >= begin + REVOKED_AFTER_CHARGES, CHARGE_SECONDS
        )
        service.revoke(key.key_id)
        is_revoked.set()
        charges = [charge for each in spending for charge in each.result(CHARGE_SECONDS)]
    if not has_begun:
        raise DemoFailed("nothing was charged through the spend-cap proxy")
    return _Revocation(
        before=charges.count((False, None)),
        after=charges.count((True, None)),
        refused=sum(code == RefusalCode.KEY_REVOKED for _, code in charges),
    )
