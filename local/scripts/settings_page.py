"""The text of docs/settings.md: names, defaults and bounds from the code that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shared.settings import ask_for_everything
from shared.settings_reader import SettingsReader, Value

_PAGE = """\
# Settings

Environment variables: app settings on Azure, variables and secrets on Google Cloud, the shell for
the command line. They are checked at start; one error lists every problem. An empty one counts as
not set. `chargeonce doctor` looks at what is legal and still unwise. [Numbers](numbers.md) says how
the times belong together. This page is written by `make reference` from `shared/settings.py`.
{tables}"""

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Always": {
        "DATABASE_URL": "PostgreSQL 14 or newer, as a URL or libpq's connection string. Secret.",
        "STRIPE_API_KEY": "Best a restricted key: PaymentIntents write, Customers and Charges "
        "read; with `STRIPE_FLOW=charge` Charges write. Secret. Not for consumers with "
        "`VAULT_PROVIDER=proxy`.",
    },
    "What is charged": {
        "BILLING_CURRENCY": "Of events that name none, and of runs.",
        "BILLING_KEY_NAMESPACE": "Part of every key. Never change it for periods in use.",
        "BILLING_FORMER_NAMESPACES": "What it was before, separated by commas: for the "
        "[rebuild](rebuild.md).",
        "BILLING_OTHER_NAMESPACES": "What other deployments in the same Stripe account use.",
        "BILLING_REQUIRE_RUN": "`false` bills periods without a run, and without a cap.",
        "BILLING_CAP_PERCENT": "A run's cap, of its expected total, rounded up.",
        "BILLING_EXPECTED_TOTAL_CENTS": "What the timer and `run open` expect of a period.",
        "BILLING_EXPECTED_TOTAL_SQL": "Or a query of your own tables that returns it; `$1` is the "
        "period.",
        "BILLING_PERIOD_FORMAT": "Makes a period of a date.",
        "BILLING_PERIOD_OFFSET": "Which period the timer opens, in UTC: -1 is the one before.",
        "RETENTION_DAYS": "How long attempts, parked events and the proxy's calls are kept; 0 for "
        "ever.",
    },
    "Stripe": {
        "STRIPE_FLOW": "`charge` is the older API, with a [risk of its own](../README.md#limits).",
        "STRIPE_API_BASE": "Where Stripe is.",
        "STRIPE_CONNECT_TIMEOUT_SECONDS": "With the read timeout the total of one attempt.",
        "STRIPE_READ_TIMEOUT_SECONDS": "The longest silence.",
        "STRIPE_MAX_ATTEMPTS": "Of one request within a delivery, always under one key.",
        "STRIPE_MAX_REQUESTS_PER_SECOND": "Of one instance; 0 for no limit.",
        "STRIPE_REPLAY_HOURS": "One-step flow: how long Stripe is trusted to replay.",
        "CHARGE_BUDGET_SECONDS": "What one delivery may spend at Stripe.",
        "CLAIM_LEASE_SECONDS": "How long a record is one worker's: longer than the budget and one "
        "attempt, shorter than lock or ack deadline.",
    },
    "Workers": {
        "BILLING_MAX_DELIVERIES": "The broker's delivery limit; one before it a message that must "
        "wait is kept and handed to reconcile.",
        "WORKER_CONCURRENCY": "Messages at once, of the pull worker and the peek-lock consumer.",
        "DATABASE_POOL_SIZE": "Connections of one process; 0 for one per thread.",
        "THREADS": "Requests at once under functions-framework, which reads the same variable.",
        "CLOUD_RUN_TIMEOUT_SECONDS": "When Cloud Run gives a request up; 0 where nobody says so.",
        "PYTHON_THREADPOOL_THREAD_COUNT": "Functions at once in a worker of Azure Functions, which "
        "reads the same variable.",
    },
    "Service Bus": {
        "ServiceBus": "A connection string: for the desk. Secret.",
        "ServiceBus__fullyQualifiedNamespace": "Or the namespace, for an identity.",
        "BILLING_QUEUE": "Where events come from, and where `publish` sends to.",
        "BILLING_TOPIC": "Or a topic,",
        "BILLING_SUBSCRIPTION": "and its subscription.",
        "MINT_SCHEDULE": "NCRONTAB of the timer that opens runs; monthly without.",
        "RECONCILE_SCHEDULE": "NCRONTAB of the timer that finishes records and resolves the "
        "proxy's holds; every five minutes without.",
    },
    "Pub/Sub": {
        "GOOGLE_CLOUD_PROJECT": "For names that do not say it.",
        "PUBSUB_TOPIC": "Where `publish` sends to.",
        "PUBSUB_SUBSCRIPTION": "Where the pull worker pulls from.",
        "PUBSUB_DEAD_LETTER_TOPIC": "Where messages go that can never be charged.",
        "PUBSUB_DEAD_LETTER_SUBSCRIPTION": "Where `dlq` finds them again.",
        "PUBSUB_LEAVE_SECONDS": "How long a pulled message that must wait stays away; doubled by "
        "each delivery.",
        "PUBSUB_PUSH_AUTH": "Who checks the push: Cloud Run, the function itself, or nobody.",
        "PUBSUB_PUSH_AUDIENCE": "Of the push's tokens, for `oidc`.",
        "PUBSUB_PUSH_SERVICE_ACCOUNT": "Whose tokens they are.",
        "SCHEDULER_AUTH": "The same for Cloud Scheduler's calls.",
        "SCHEDULER_AUDIENCE": "Of its tokens, for `oidc`.",
        "SCHEDULER_SERVICE_ACCOUNT": "Whose tokens they are.",
    },
    "Vault keys and the spend-cap proxy": {
        "VAULT_PROVIDER": "`proxy` sends every call through a [spend-cap proxy](vault.md).",
        "VAULT_PROXY_URL": "Where it is.",
        "VAULT_ADMIN_URL": "Where keys are minted, if its admin API is deployed apart.",
        "VAULT_PROXY_API_KEY": "Its admin token, or the hosted service's key; for timers and "
        "people. Secret.",
        "VAULT_KEY_HOURS": "How long a minted key works; it is replaced at half of that.",
        "VAULT_ENCRYPTION_KEY": "Encrypts the keys in the database: a Fernet key, or several "
        "separated by commas, of which the first encrypts. Secret.",
        "KEYBRAKE_URL": "In place of `VAULT_PROXY_URL`.",
        "KEYBRAKE_API_KEY": "In place of `VAULT_PROXY_API_KEY`. Secret.",
        "KEYBRAKE_VAULT_KEY": "One fixed vault key in place of minted ones. Secret.",
        "VAULT_PROXY_SERVES": "What a deployment serves that is the proxy, and bills nothing.",
        "VAULT_ADMIN_TOKEN": "Opens the proxy's admin API: 24 random characters or more. Secret.",
    },
    "Moving over": {
        "IMPORT_DATABASE_URL": "The older system's database, for `chargeonce import "
        "--sql`. Secret.",
    },
    "Refused": {
        "STRIPE_ACCOUNT": "Connect is not supported.",
        "STRIPE_LOG": "Stripe's SDK would print customers' data.",
    },
}
"""What each setting does, in the order of the page."""

REQUIRED = "required"
_DEFAULTS_IN_WORDS = {
    "IMPORT_DATABASE_URL": "",
    "PYTHON_THREADPOOL_THREAD_COUNT": "cores and 4, at most 32",
    "STRIPE_API_BASE": "`https://api.stripe.com`",
    "THREADS": "4 for each core",
    "VAULT_ENCRYPTION_KEY": "required with `proxy`",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the code says about a setting: its default, and what it must be."""

    default: str
    expected: str


class Observer(SettingsReader):
    """Notes what is asked for, where nothing is set.

    Attributes:
        asked: by name.
    """

    def __init__(self) -> None:
        super().__init__({})
        self.asked: dict[str, Asked] = {}

    def text(self, name: str) -> str | None:
        """See `SettingsReader.text`."""
        self.asked.setdefault(name, Asked("", ""))
        return None

    def required(self, name: str) -> str:
        """See `SettingsReader.required`."""
        self.asked[name] = Asked(REQUIRED, "")
        return ""

    def parsed(
        self,
        name: str,
        default: Value,
        parse: Callable[[str], Value],  # noqa: ARG002 (nothing is set)
        expected: str,
    ) -> Value:
        """See `SettingsReader.parsed`."""
        said = str(default).lower() if isinstance(default, bool) else f"{default}"
        self.asked[name] = Asked(f"`{said}`" if said else "", expected)
        return default


def settings_page() -> str:
    """The text of docs/settings.md."""
    observer = Observer()
    ask_for_everything(observer)
    tables = [_table(title, group, observer.asked) for title, group in GROUPS.items()]
    return _PAGE.format(tables="".join(tables))


def _table(title: str, group: Mapping[str, str], asked: Mapping[str, Asked]) -> str:
    rows = [_row(name, meaning, asked[name]) for name, meaning in group.items()]
    head = "| setting | default | must be | meaning |\n|---|---|---|---|\n"
    return f"\n## {title}\n\n{head}" + "".join(rows)


def _row(name: str, meaning: str, asked: Asked) -> str:
    said = _DEFAULTS_IN_WORDS.get(name, asked.default)
    return f"| `{name}` | {said} | {asked.expected} | {meaning} |\n"
