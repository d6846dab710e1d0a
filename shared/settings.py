"""The settings: read and checked here and nowhere else, with one error that lists every problem.

No message quotes a value: it may be a secret.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shared.biller import BillingRules
from shared.errors import SettingsError
from shared.record import Flow
from shared.settings_reader import SettingsReader

_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_API_KEY_MODES = {"rk_live_": True, "sk_live_": True, "rk_test_": False, "sk_test_": False}
# The key and whatever else is in it are nobody's business but the SDK's.
_ENDPOINT = re.compile(r"(?:^|;)\s*Endpoint\s*=\s*sb://([^/;]+)", re.IGNORECASE)
_FULL_PUBSUB_NAME = "projects/"
_NCRONTAB = re.compile(r"\S+( +\S+){5}")
_SCHEDULE_EXPECTED = "an NCRONTAB expression of six fields, seconds first"
MAX_REPLAY_HOURS = 23.9
MAX_LEASE_SECONDS = 3600.0
MAX_FUNCTION_SECONDS = 3600
MAX_RETENTION_DAYS = 36_500
AUTH_MODES = ("iam", "oidc", "none")
VAULT_PROVIDERS = ("ledger", "proxy")
AZURE = "azure"
GOOGLE = "google"
CLOUDS = (AZURE, GOOGLE)
VAULT_PROXY_PARTS = ("none", "calls", "admin", "both")
LEAST_ADMIN_TOKEN_CHARACTERS = 24
ENCRYPTION_KEY_BYTES = 32
MAX_VAULT_KEY_HOURS = 24
VAULT_KEY_MISSING = (
    "VAULT_PROXY_API_KEY (or KEYBRAKE_API_KEY) is missing: the admin token of our proxy, or the "
    "hosted service's API key"
)
DEAD_LETTER_PLACES = ("servicebus", "pubsub", "parked")


@dataclass(frozen=True, slots=True)
class StripeSettings:
    """How to reach Stripe."""

    api_key: str = field(repr=False)
    api_base: str
    connect_timeout_seconds: float
    read_timeout_seconds: float


@dataclass(frozen=True, slots=True)
class CallerSettings:
    """Who may call an HTTP function: Pub/Sub's push, or Cloud Scheduler.

    Args:
        prefix: of the settings' names.
        auth: one of `AUTH_MODES`; see `gcp_function.authentication`.
        audience: of its tokens, for `oidc`.
        service_account: whose tokens they are.
    """

    prefix: str
    auth: str
    audience: str | None
    service_account: str | None


@dataclass(frozen=True, slots=True)
class PubsubSettings:
    """Google Cloud's side."""

    project: str | None
    topic: str | None
    subscription: str | None
    dead_letter_topic: str | None
    dead_letter_subscription: str | None
    push: CallerSettings
    leave_seconds: int

    @property
    def dead_letter_path(self) -> str:
        """The dead-letter topic's full name."""
        return self._path("topics", self.dead_letter_topic or "")

    @property
    def dead_letter_subscription_path(self) -> str:
        """The full name of the dead-letter topic's subscription."""
        return self._path("subscriptions", self.dead_letter_subscription or "")

    @property
    def topic_path(self) -> str:
        """The full name of the topic that events are sent to."""
        return self._path("topics", self.topic or "")

    @property
    def subscription_path(self) -> str:
        """The subscription's full name."""
        return self._path("subscriptions", self.subscription or "")

    def _path(self, collection: str, name: str) -> str:
        return name if "/" in name else f"projects/{self.project}/{collection}/{name}"


@dataclass(frozen=True, slots=True)
class FunctionSettings:
    """What functions-framework goes by, read from the same variables.

    Args:
        threads: how many requests one process handles at once.
        timeout_seconds: when a request is given up; None when nobody says so.
    """

    threads: int
    timeout_seconds: int | None


@dataclass(frozen=True, slots=True)
class ServiceBusSettings:
    """Azure's side.

    Args:
        connection_string: None where an identity is used.
        namespace: its full name, for an identity.
        queue: None where events come from a topic's subscription.
        topic: with `subscription`; None where they come from a queue.
        subscription: the topic's.
        threads: how many functions one worker process runs at once.
        mint_schedule: NCRONTAB; None for the usual one.
        reconcile_schedule: the same for reconcile.
    """

    connection_string: str | None = field(repr=False)
    namespace: str | None
    queue: str | None
    topic: str | None
    subscription: str | None
    threads: int
    mint_schedule: str | None
    reconcile_schedule: str | None

    @property
    def host(self) -> str | None:
        """The namespace's full name, whichever way it is given; None if it is not."""
        if self.connection_string is None:
            return self.namespace
        endpoint = _ENDPOINT.search(self.connection_string)
        return endpoint[1] if endpoint else None


@dataclass(frozen=True, slots=True)
class PublishChoice:
    """Where somebody said that events shall be sent; what is None, the settings say.

    Args:
        cloud: one of `CLOUDS`.
        queue: of Service Bus.
        topic: of Service Bus, or of Pub/Sub, full or short.
    """

    cloud: str | None = None
    queue: str | None = None
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class PublishSettings:
    """Where events are sent, and the currency of those that name none."""

    destination: ServiceBusSettings | PubsubSettings
    currency: str


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What the mint timer and `run open` use."""

    cap_percent: int
    period_format: str
    period_offset: int
    expected_total_cents: int | None
    expected_total_sql: str | None


@dataclass(frozen=True, slots=True)
class VaultServiceSettings:
    """Who mints vault keys.

    Args:
        url: of the service; `/vault/keys` is below it.
        api_key: opens it.
        key_namespace: begins the label of each run's key.
    """

    url: str
    api_key: str = field(repr=False)
    key_namespace: str


@dataclass(frozen=True, slots=True)
class RunKeySettings:
    """How the runs' vault keys are minted and opened.

    Args:
        service_url: where keys are minted; `/vault/keys` is below it.
        service_key: opens it; None where keys are only used.
        hours: how long a key works.
        encryption_keys: the first encrypts the keys in the database, each of them decrypts.
    """

    service_url: str
    service_key: str | None = field(repr=False)
    hours: float
    encryption_keys: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class VaultProxySettings:
    """What the spend-cap proxy goes by.

    Args:
        retention_days: how long the lines about calls are kept; 0 for ever.
        stripe: with the real key; unused where only the admin API is served.
        admin_token: the admin API's own.
        function: Google Cloud's side.
        scheduler: who may call the timer there.
        worker_threads: how many functions one of Azure's workers runs at once.
        reconcile_schedule: NCRONTAB of the timer there; None for the usual one.
    """

    database_url: str = field(repr=False)
    database_pool_size: int
    retention_days: int
    stripe: StripeSettings
    admin_token: str | None = field(repr=False)
    serves_calls: bool
    serves_admin: bool
    function: FunctionSettings
    scheduler: CallerSettings
    worker_threads: int
    reconcile_schedule: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeadLetterSettings:
    """What the commands about dead letters need.

    Args:
        places: where to look, of `DEAD_LETTER_PLACES`.
        database_url: where the records are.
        currency: of events that name none.
        require_run: whether a period without a run has to wait.
        servicebus: Azure's side.
        pubsub: Google Cloud's side.
    """

    places: tuple[str, ...]
    database_url: str = field(repr=False)
    currency: str
    require_run: bool
    servicebus: ServiceBusSettings
    pubsub: PubsubSettings


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the environment says.

    `stripe` is the way that charges take: behind a spend-cap proxy it leads there, and its key is
    the fixed vault key, or none where each run has a key of its own: see `run_keys`. There
    `direct_stripe` is the way past the proxy, for an operator who has Stripe's key.
    """

    database_url: str = field(repr=False)
    database_pool_size: int
    retention_days: int
    worker_concurrency: int
    rules: BillingRules
    stripe: StripeSettings
    direct_stripe: StripeSettings | None
    run_keys: RunKeySettings | None
    pubsub: PubsubSettings
    scheduler: CallerSettings
    servicebus: ServiceBusSettings
    function: FunctionSettings
    run: RunSettings
    warnings: tuple[str, ...]


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read and check every setting.

    Args:
        environment: in place of the process's own.

    Raises:
        SettingsError: lists all problems at once.
    """
    return _read_checked(environment, lambda _: [])


def read_push_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read and check every setting, with what only the push endpoint needs.

    Args:
        environment: in place of the process's own.

    Raises:
        SettingsError: lists all problems at once.
    """
    settings = _read_checked(environment, _push_problems)
    if settings.pubsub.push.auth == "none":
        warning = "PUBSUB_PUSH_AUTH=none: whoever can reach the endpoint can bill"
        return replace(settings, warnings=(*settings.warnings, warning))
    return settings


def read_scheduled_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read and check every setting, with what only the functions of Cloud Scheduler need.

    Args:
        environment: in place of the process's own.

    Raises:
        SettingsError: lists all problems at once.
    """
    settings = _read_checked(
        environment,
        lambda settings: [*_function_timeout_problems(settings), *_minting_problems(settings)],
    )
    if settings.scheduler.auth == "none":
        warning = "SCHEDULER_AUTH=none: whoever can reach the endpoint can start a timer"
        return replace(settings, warnings=(*settings.warnings, warning))
    return settings


def read_pull_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read and check every setting, with what only the pull worker needs.

    Args:
        environment: in place of the process's own.

    Raises:
        SettingsError: lists all problems at once.
    """
    return _read_checked(environment, _pull_problems)


def read_servicebus_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read and check every setting, with what only the Service Bus consumers need.

    Args:
        environment: in place of the process's own.

    Raises:
        SettingsError: lists all problems at once.
    """
    return _read_checked(environment, lambda settings: _servicebus_problems(settings.servicebus))


def examine_settings(
    environment: Mapping[str, str] | None = None,
) -> tuple[Settings, Sequence[str]]:
    """Every setting, with what is wrong about it in place of an error: for `doctor`.

    What is wrong has its default. A cloud's own settings are checked where one of them is set.

    Args:
        environment: in place of the process's own.
    """
    reader = _open_reader(environment)
    settings = _read_all(reader)
    servicebus, pubsub = settings.servicebus, settings.pubsub
    problems = list(reader.problems)
    if servicebus.host or servicebus.queue or servicebus.topic:
        problems += _servicebus_problems(servicebus)
    if pubsub.subscription:
        problems += _pull_problems(settings)
    elif pubsub.push.service_account or pubsub.push.auth != "iam":
        problems += _push_problems(settings)
    if settings.scheduler.service_account:
        problems += _minting_problems(settings)
    return settings, problems


def ask_for_everything(reader: SettingsReader) -> None:
    """Ask for every setting that there is: for their reference.

    Args:
        reader: sees which ones, with their defaults and what is expected of them.
    """
    _read_all(reader)
    _read_proxied_rules(reader)
    _read_stripe_behind_proxy(reader)
    _read_run_keys(reader)
    _read_vault_proxy(reader)
    reader.required("IMPORT_DATABASE_URL")


def read_database_url(environment: Mapping[str, str] | None = None) -> str:
    """The database alone, for commands that need nothing else.

    Raises:
        SettingsError: it is missing.
    """
    return _read_required("DATABASE_URL", environment)


def read_import_database_url(environment: Mapping[str, str] | None = None) -> str:
    """The database of an older system, from which its charges are imported.

    Raises:
        SettingsError: it is missing.
    """
    return _read_required("IMPORT_DATABASE_URL", environment)


def read_publish_settings(
    choice: PublishChoice | None = None, environment: Mapping[str, str] | None = None
) -> PublishSettings:
    """What sending events needs: where they go, and the default currency.

    Args:
        choice: what was said about it, in place of the settings.
        environment: in place of the process's own.

    Raises:
        SettingsError: lists all problems at once; one is that both clouds could be meant.
    """
    choice = choice or PublishChoice()
    reader = _open_reader(environment)
    currency = _read_currency(reader)
    servicebus, pubsub = _read_servicebus(reader), _read_pubsub(reader)
    if choice.queue is not None or choice.topic is not None:
        servicebus = replace(servicebus, queue=choice.queue, topic=choice.topic)
        pubsub = replace(pubsub, topic=choice.topic)
    problems = {
        AZURE: _servicebus_sending_problems(servicebus),
        GOOGLE: _pubsub_sending_problems(pubsub, choice.queue),
    }
    cloud = choice.cloud or _only_cloud(problems)
    reader.problems.extend(problems[cloud] if cloud else _cloud_problems(problems))
    reader.refuse_problems()
    return PublishSettings(servicebus if cloud == AZURE else pubsub, currency)


def read_vault_service_settings(
    environment: Mapping[str, str] | None = None,
) -> VaultServiceSettings:
    """What commands about vault keys need: the service that mints them.

    Raises:
        SettingsError: lists all problems at once.
    """
    reader = _open_reader(environment)
    url, api_key = _read_vault_service_url(reader), _read_vault_service_key(reader)
    if api_key is None:
        reader.problems.append(VAULT_KEY_MISSING)
    namespace = _read_namespace(reader)
    reader.refuse_problems()
    return VaultServiceSettings(url, api_key or "", namespace)


def is_vault_proxy(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this deployment is the spend-cap proxy. Then it bills nothing: who can bill should
    not hold the key that the proxy keeps from it.
    """
    serves = _open_reader(environment).text("VAULT_PROXY_SERVES") or "none"
    return serves.lower() != "none"


def is_behind_vault_proxy(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this deployment calls Stripe through a spend-cap proxy."""
    return (_open_reader(environment).text("VAULT_PROVIDER") or "ledger").lower() == "proxy"


def read_vault_proxy_settings(environment: Mapping[str, str] | None = None) -> VaultProxySettings:
    """What the spend-cap proxy needs.

    Raises:
        SettingsError: lists all problems at once.
    """
    reader = _open_reader(environment)
    settings = _read_vault_proxy(reader)
    reader.refuse_problems()
    return settings


def _read_vault_proxy(reader: SettingsReader) -> VaultProxySettings:
    serves = reader.choice("VAULT_PROXY_SERVES", "none", VAULT_PROXY_PARTS)
    serves_calls, serves_admin = serves in ("calls", "both"), serves in ("admin", "both")
    token = reader.text("VAULT_ADMIN_TOKEN")
    if serves == "none":
        reader.problems.append(
            "VAULT_PROXY_SERVES must say what is served here: calls, admin or both"
        )
    if serves_admin and (token is None or len(token) < LEAST_ADMIN_TOKEN_CHARACTERS):
        reader.problems.append(
            f"VAULT_ADMIN_TOKEN must have at least {LEAST_ADMIN_TOKEN_CHARACTERS} random "
            "characters: it opens the admin API"
        )
    return VaultProxySettings(
        database_url=reader.required("DATABASE_URL"),
        database_pool_size=reader.whole("DATABASE_POOL_SIZE", 0, least=0, most=1000),
        retention_days=_read_retention_days(reader),
        stripe=_read_stripe(reader, needs_key=serves_calls),
        admin_token=token,
        serves_calls=serves_calls,
        serves_admin=serves_admin,
        function=_read_function(reader),
        scheduler=_read_caller(reader, "SCHEDULER"),
        worker_threads=_read_worker_threads(reader),
        reconcile_schedule=_read_schedule(reader, "RECONCILE_SCHEDULE"),
        warnings=tuple(reader.warnings),
    )


def read_run_settings(environment: Mapping[str, str] | None = None) -> tuple[RunSettings, str]:
    """What opening a run needs: its settings and the default currency.

    Raises:
        SettingsError: lists all problems at once.
    """
    reader = _open_reader(environment)
    run, currency = _read_run(reader), _read_currency(reader)
    reader.refuse_problems()
    return run, currency


def read_dead_letter_settings(
    places: Sequence[str] = (),
    *,
    sends: bool = False,
    environment: Mapping[str, str] | None = None,
) -> DeadLetterSettings:
    """What the commands about dead letters need.

    Args:
        places: where to look; none for every broker that is configured, and for our own table,
            which holds copies of the same messages, when none is.
        sends: whether messages are sent back to where they are billed from.
        environment: in place of the process's own.

    Raises:
        SettingsError: lists all problems at once.
    """
    reader = _open_reader(environment)
    servicebus, pubsub = _read_servicebus(reader), _read_pubsub(reader)
    if not places:
        has_servicebus = (servicebus.queue or servicebus.topic) is not None
        has_pubsub = pubsub.dead_letter_subscription is not None
        brokers = ["servicebus"] * has_servicebus + ["pubsub"] * has_pubsub
        places = brokers or ["parked"]
    settings = DeadLetterSettings(
        places=tuple(dict.fromkeys(places)),
        database_url=reader.required("DATABASE_URL"),
        currency=_read_currency(reader),
        require_run=reader.flag("BILLING_REQUIRE_RUN", default=True),
        servicebus=servicebus,
        pubsub=pubsub,
    )
    problems = list(reader.problems)
    if "servicebus" in places:
        problems += _servicebus_problems(servicebus)
    if "pubsub" in places:
        problems += _dead_letter_subscription_problems(pubsub)
        problems += _topic_problems(pubsub) if sends else []
    if problems:
        raise SettingsError(problems)
    return settings


def _open_reader(environment: Mapping[str, str] | None) -> SettingsReader:
    return SettingsReader(os.environ if environment is None else environment)


def _read_checked(
    environment: Mapping[str, str] | None, find_problems: Callable[[Settings], list[str]]
) -> Settings:
    """Every setting, checked, and what one deployment needs besides."""
    reader = _open_reader(environment)
    settings = _read_all(reader)
    reader.problems.extend(find_problems(settings))
    reader.refuse_problems()
    return settings


def _read_required(name: str, environment: Mapping[str, str] | None) -> str:
    reader = _open_reader(environment)
    value = reader.required(name)
    reader.refuse_problems()
    return value


def _read_all(reader: SettingsReader) -> Settings:
    is_proxied = reader.choice("VAULT_PROVIDER", "ledger", VAULT_PROVIDERS) == "proxy"
    return Settings(
        database_url=reader.required("DATABASE_URL"),
        database_pool_size=reader.whole("DATABASE_POOL_SIZE", 0, least=0, most=1000),
        retention_days=_read_retention_days(reader),
        worker_concurrency=reader.whole("WORKER_CONCURRENCY", 8, least=1, most=1000),
        rules=_read_proxied_rules(reader) if is_proxied else _read_rules(reader),
        stripe=_read_stripe_behind_proxy(reader) if is_proxied else _read_stripe(reader),
        direct_stripe=_read_direct_stripe(reader) if is_proxied else None,
        run_keys=_read_run_keys(reader) if is_proxied else None,
        pubsub=_read_pubsub(reader),
        scheduler=_read_caller(reader, "SCHEDULER"),
        servicebus=_read_servicebus(reader),
        function=_read_function(reader),
        run=_read_run(reader),
        warnings=tuple(reader.warnings),
    )


def _read_currency(reader: SettingsReader) -> str:
    return reader.matching("BILLING_CURRENCY", "usd", _CURRENCY, "a three-letter code").lower()


_NAMESPACE_EXPECTED = "letters, digits, dots, dashes or underscores (no colon), at most 64"


def _read_namespace(reader: SettingsReader) -> str:
    return reader.matching(
        "BILLING_KEY_NAMESPACE", "usage-billing", _NAMESPACE, _NAMESPACE_EXPECTED
    )


def _read_namespaces(reader: SettingsReader, name: str) -> tuple[str, ...]:
    """Several of them, separated by commas."""
    names = tuple(part.strip() for part in (reader.text(name) or "").split(",") if part.strip())
    wrong = [part for part in names if not _NAMESPACE.fullmatch(part)]
    if wrong:
        reader.problems.append(
            f"{name} must hold namespaces, separated by commas: {_NAMESPACE_EXPECTED}; not "
            f"{wrong[0]!r}"
        )
    return names


def _read_rules(reader: SettingsReader) -> BillingRules:
    connect = reader.number("STRIPE_CONNECT_TIMEOUT_SECONDS", 5, least=0.1, most=60)
    read = reader.number("STRIPE_READ_TIMEOUT_SECONDS", 30, least=0.1, most=300)
    budget = reader.number("CHARGE_BUDGET_SECONDS", 120, least=1, most=MAX_LEASE_SECONDS)
    lease = reader.number("CLAIM_LEASE_SECONDS", 180, least=1, most=MAX_LEASE_SECONDS)
    attempt = connect + read
    if budget < attempt:
        reader.problems.append(
            f"CHARGE_BUDGET_SECONDS ({budget:g}) must leave room for one attempt "
            f"({attempt:g} = STRIPE_CONNECT_TIMEOUT_SECONDS + STRIPE_READ_TIMEOUT_SECONDS)"
        )
    if budget + attempt >= lease:
        reader.problems.append(
            f"CLAIM_LEASE_SECONDS ({lease:g}) must be longer than CHARGE_BUDGET_SECONDS plus one "
            f"attempt ({budget:g} + {attempt:g}): else a lease lapses while Stripe is answering"
        )
    return BillingRules(
        flow=Flow(reader.choice("STRIPE_FLOW", "payment_intent", tuple(Flow))),
        key_namespace=_read_namespace(reader),
        former_namespaces=_read_namespaces(reader, "BILLING_FORMER_NAMESPACES"),
        other_namespaces=_read_namespaces(reader, "BILLING_OTHER_NAMESPACES"),
        currency=_read_currency(reader),
        require_run=reader.flag("BILLING_REQUIRE_RUN", default=True),
        budget_seconds=budget,
        lease_seconds=lease,
        attempt_seconds=attempt,
        max_attempts=reader.whole("STRIPE_MAX_ATTEMPTS", 2, least=1, most=10),
        replay_hours=reader.number("STRIPE_REPLAY_HOURS", 23, least=0.1, most=MAX_REPLAY_HOURS),
        max_deliveries=reader.whole("BILLING_MAX_DELIVERIES", 10, least=2, most=2000),
        max_requests_per_second=reader.number(
            "STRIPE_MAX_REQUESTS_PER_SECOND", 0, least=0, most=10_000
        ),
        key_livemode=_key_livemode(reader),
    )


def _key_livemode(reader: SettingsReader) -> bool | None:
    api_key = reader.text("STRIPE_API_KEY") or ""
    return next(
        (mode for prefix, mode in _API_KEY_MODES.items() if api_key.startswith(prefix)), None
    )


def _read_retention_days(reader: SettingsReader) -> int:
    return reader.whole("RETENTION_DAYS", 0, least=0, most=MAX_RETENTION_DAYS)


def _read_stripe(reader: SettingsReader, *, needs_key: bool = True) -> StripeSettings:
    api_key = reader.required("STRIPE_API_KEY") if needs_key else ""
    if api_key and _key_livemode(reader) is None:
        reader.problems.append(
            "STRIPE_API_KEY must start with rk_live_, rk_test_, sk_live_ or sk_test_"
        )
    if api_key.startswith("sk_"):
        reader.warnings.append(
            "STRIPE_API_KEY is a secret key: a restricted key (rk_...) with write access to "
            "PaymentIntents and read access to Customers and Charges is enough"
        )
    if reader.text("STRIPE_ACCOUNT") is not None:
        reader.problems.append("STRIPE_ACCOUNT is set, but Stripe Connect is not supported")
    if reader.text("STRIPE_LOG") is not None:
        reader.problems.append(
            "STRIPE_LOG is set: Stripe's SDK would print customers' data to standard error"
        )
    api_base = reader.text("STRIPE_API_BASE") or "https://api.stripe.com"
    if not api_base.startswith(("https://", "http://")):
        reader.problems.append("STRIPE_API_BASE must start with https:// (or http:// on a desk)")
    return StripeSettings(
        api_key=api_key,
        api_base=api_base.rstrip("/"),
        connect_timeout_seconds=reader.number(
            "STRIPE_CONNECT_TIMEOUT_SECONDS", 5, least=0.1, most=60
        ),
        read_timeout_seconds=reader.number("STRIPE_READ_TIMEOUT_SECONDS", 30, least=0.1, most=300),
    )


def _read_proxied_rules(reader: SettingsReader) -> BillingRules:
    """The rules behind a spend-cap proxy, whose keys are for one run and count dollars."""
    # Stripe's key, if it is here at all, is not what charges.
    rules = replace(_read_rules(reader), key_livemode=None)
    if rules.currency != "usd":
        reader.problems.append(
            "BILLING_CURRENCY must be usd with VAULT_PROVIDER=proxy: a vault key's cap counts US "
            "dollars"
        )
    if not rules.require_run and reader.text("KEYBRAKE_VAULT_KEY") is None:
        reader.problems.append(
            "BILLING_REQUIRE_RUN=false needs KEYBRAKE_VAULT_KEY with VAULT_PROVIDER=proxy: vault "
            "keys are minted for runs"
        )
    return rules


def _read_stripe_behind_proxy(reader: SettingsReader) -> StripeSettings:
    stripe = _read_stripe(reader, needs_key=False)
    url = reader.text("VAULT_PROXY_URL") or reader.text("KEYBRAKE_URL") or ""
    if not url.startswith(("https://", "http://")):
        reader.problems.append(
            "VAULT_PROXY_URL (or KEYBRAKE_URL) must say where the spend-cap proxy is: https://..."
        )
    fixed_key = reader.text("KEYBRAKE_VAULT_KEY") or ""
    return replace(stripe, api_key=fixed_key, api_base=f"{url.rstrip('/')}/stripe")


def _read_direct_stripe(reader: SettingsReader) -> StripeSettings | None:
    if reader.text("STRIPE_API_KEY") is None:
        return None
    reader.warnings.append(
        "STRIPE_API_KEY is set with VAULT_PROVIDER=proxy: only commands that read Stripe use it, "
        "so functions and workers should not have it"
    )
    return _read_stripe(reader)


def _read_run_keys(reader: SettingsReader) -> RunKeySettings | None:
    """None with a fixed vault key: then none is minted."""
    if reader.text("KEYBRAKE_VAULT_KEY") is not None:
        return None
    return RunKeySettings(
        service_url=_read_vault_service_url(reader),
        service_key=_read_vault_service_key(reader),
        hours=reader.number("VAULT_KEY_HOURS", 6, least=0.5, most=MAX_VAULT_KEY_HOURS),
        encryption_keys=_read_encryption_keys(reader),
    )


def _read_vault_service_url(reader: SettingsReader) -> str:
    """Where keys are minted: with the proxy, unless its admin API is deployed apart."""
    names = ("VAULT_ADMIN_URL", "VAULT_PROXY_URL", "KEYBRAKE_URL")
    url = next((found for found in map(reader.text, names) if found), "")
    if not url.startswith(("https://", "http://")):
        reader.problems.append(
            "VAULT_PROXY_URL (or KEYBRAKE_URL, or VAULT_ADMIN_URL) must say where vault keys are "
            "minted: https://..."
        )
    return url.rstrip("/")


def _read_vault_service_key(reader: SettingsReader) -> str | None:
    return reader.text("VAULT_PROXY_API_KEY") or reader.text("KEYBRAKE_API_KEY")


def _read_encryption_keys(reader: SettingsReader) -> tuple[str, ...]:
    keys = tuple(filter(None, map(str.strip, reader.required("VAULT_ENCRYPTION_KEY").split(","))))
    if not all(map(_is_encryption_key, keys)):
        reader.problems.append(
            "VAULT_ENCRYPTION_KEY must be a Fernet key, 32 bytes in URL-safe base64, or several "
            "separated by commas: `openssl rand -base64 32 | tr +/ -_` makes one"
        )
    return keys


def _is_encryption_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, altchars=b"-_", validate=True)) == ENCRYPTION_KEY_BYTES
    except ValueError:
        return False


def _minting_problems(settings: Settings) -> list[str]:
    is_missing = settings.run_keys is not None and settings.run_keys.service_key is None
    return [VAULT_KEY_MISSING] if is_missing else []


def _read_caller(reader: SettingsReader, prefix: str) -> CallerSettings:
    caller = CallerSettings(
        prefix=prefix,
        auth=reader.choice(f"{prefix}_AUTH", "iam", AUTH_MODES),
        audience=reader.text(f"{prefix}_AUDIENCE"),
        service_account=reader.text(f"{prefix}_SERVICE_ACCOUNT"),
    )
    if caller.auth == "oidc" and (caller.audience is None or caller.service_account is None):
        reader.problems.append(
            f"{prefix}_AUTH=oidc needs {prefix}_AUDIENCE and {prefix}_SERVICE_ACCOUNT: "
            "without them any Google token would be let in"
        )
    return caller


def _read_pubsub(reader: SettingsReader) -> PubsubSettings:
    return PubsubSettings(
        project=reader.text("GOOGLE_CLOUD_PROJECT"),
        topic=reader.text("PUBSUB_TOPIC"),
        subscription=reader.text("PUBSUB_SUBSCRIPTION"),
        dead_letter_topic=reader.text("PUBSUB_DEAD_LETTER_TOPIC"),
        dead_letter_subscription=reader.text("PUBSUB_DEAD_LETTER_SUBSCRIPTION"),
        push=_read_caller(reader, "PUBSUB_PUSH"),
        leave_seconds=reader.whole("PUBSUB_LEAVE_SECONDS", 10, least=1, most=600),
    )


def _read_servicebus(reader: SettingsReader) -> ServiceBusSettings:
    return ServiceBusSettings(
        connection_string=reader.text("ServiceBus"),
        namespace=reader.text("ServiceBus__fullyQualifiedNamespace"),
        queue=reader.text("BILLING_QUEUE"),
        topic=reader.text("BILLING_TOPIC"),
        subscription=reader.text("BILLING_SUBSCRIPTION"),
        threads=_read_worker_threads(reader),
        mint_schedule=_read_schedule(reader, "MINT_SCHEDULE"),
        reconcile_schedule=_read_schedule(reader, "RECONCILE_SCHEDULE"),
    )


def _read_schedule(reader: SettingsReader, name: str) -> str | None:
    return reader.matching(name, "", _NCRONTAB, _SCHEDULE_EXPECTED) or None


def _read_worker_threads(reader: SettingsReader) -> int:
    """How many functions a worker of Azure's runs at once."""
    # What a thread pool has that is not told otherwise.
    usual_threads = min(32, (os.cpu_count() or 1) + 4)
    return reader.whole("PYTHON_THREADPOOL_THREAD_COUNT", usual_threads, least=1, most=1000)


def _servicebus_problems(servicebus: ServiceBusSettings) -> list[str]:
    problems = _connection_problems(servicebus)
    has_queue = servicebus.queue is not None
    has_subscription = servicebus.topic is not None and servicebus.subscription is not None
    has_half = (servicebus.topic is None) != (servicebus.subscription is None)
    if has_queue == has_subscription or has_half:
        problems.append(
            "either BILLING_QUEUE or both BILLING_TOPIC and BILLING_SUBSCRIPTION must be set"
        )
    return problems


def _connection_problems(servicebus: ServiceBusSettings) -> list[str]:
    if (servicebus.connection_string is None) == (servicebus.namespace is None):
        problem = (
            "either ServiceBus (a connection string) or ServiceBus__fullyQualifiedNamespace (for "
            "an identity) must be set, and not both"
        )
        return [problem]
    if servicebus.host is None:
        return ["ServiceBus must be a connection string: Endpoint=sb://..."]
    return []


def _servicebus_sending_problems(servicebus: ServiceBusSettings) -> list[str]:
    problems = _connection_problems(servicebus)
    if (servicebus.queue is None) == (servicebus.topic is None):
        problems.append(
            "either BILLING_QUEUE (or --queue) or BILLING_TOPIC (or --topic) must be given: events "
            "are sent there"
        )
    elif (servicebus.topic or "").startswith(_FULL_PUBSUB_NAME):
        problems.append(f"a topic of Service Bus is not called {_FULL_PUBSUB_NAME}...")
    return problems


def _pubsub_sending_problems(pubsub: PubsubSettings, queue: str | None) -> list[str]:
    if queue is not None:
        return ["--queue is one of Service Bus: Pub/Sub has topics"]
    return _topic_problems(pubsub, " (or --topic)")


def _only_cloud(problems: Mapping[str, list[str]]) -> str | None:
    """The cloud that is set up, if one is and the other is not."""
    usable = [cloud for cloud in CLOUDS if not problems[cloud]]
    return usable[0] if len(usable) == 1 else None


def _cloud_problems(problems: Mapping[str, list[str]]) -> list[str]:
    if any(problems.values()):
        return [
            f"for --cloud {cloud}: {problem}" for cloud in CLOUDS for problem in problems[cloud]
        ]
    return ["both clouds are set up: say which one with --cloud azure or --cloud google"]


def _read_function(reader: SettingsReader) -> FunctionSettings:
    usual_threads = 4 * (os.cpu_count() or 1)
    timeout = reader.whole("CLOUD_RUN_TIMEOUT_SECONDS", 0, least=0, most=MAX_FUNCTION_SECONDS)
    return FunctionSettings(
        threads=reader.whole("THREADS", usual_threads, least=1, most=1000),
        timeout_seconds=timeout or None,
    )


def _dead_letter_problems(pubsub: PubsubSettings) -> list[str]:
    if pubsub.dead_letter_topic is None:
        return ["PUBSUB_DEAD_LETTER_TOPIC is missing: messages that can never be charged go there"]
    return _name_problems("PUBSUB_DEAD_LETTER_TOPIC", pubsub.dead_letter_topic, pubsub.project)


def _dead_letter_subscription_problems(pubsub: PubsubSettings) -> list[str]:
    name = "PUBSUB_DEAD_LETTER_SUBSCRIPTION"
    if pubsub.dead_letter_subscription is None:
        return [f"{name} is missing: dead letters are looked for there"]
    return _name_problems(name, pubsub.dead_letter_subscription, pubsub.project)


def _topic_problems(pubsub: PubsubSettings, option: str = "") -> list[str]:
    if pubsub.topic is None:
        return [f"PUBSUB_TOPIC is missing{option}: events are sent there"]
    return _name_problems(f"PUBSUB_TOPIC{option}", pubsub.topic, pubsub.project)


def _name_problems(setting: str, name: str, project: str | None) -> list[str]:
    """What is wrong with the name of a topic or, where the setting says so, a subscription."""
    kind = "subscription" if setting.endswith("SUBSCRIPTION") else "topic"
    if not re.fullmatch(rf"(projects/[^/]+/{kind}s/)?[^/]+", name):
        return [f"{setting} must be a {kind}'s name or projects/PROJECT/{kind}s/NAME"]
    if project is None and "/" not in name:
        return [f"GOOGLE_CLOUD_PROJECT is missing: {setting} needs it"]
    return []


def _pull_problems(settings: Settings) -> list[str]:
    pubsub = settings.pubsub
    problems = _dead_letter_problems(pubsub)
    if pubsub.subscription is None:
        return [*problems, "PUBSUB_SUBSCRIPTION is missing: events are pulled from it"]
    return problems + _name_problems("PUBSUB_SUBSCRIPTION", pubsub.subscription, pubsub.project)


def _push_problems(settings: Settings) -> list[str]:
    problems = _dead_letter_problems(settings.pubsub)
    if settings.pubsub.push.auth == "iam" and settings.pubsub.push.service_account is None:
        problems.append(
            "PUBSUB_PUSH_AUTH=iam needs PUBSUB_PUSH_SERVICE_ACCOUNT: anybody who may invoke the "
            "function could bill otherwise"
        )
    return [*problems, *_function_timeout_problems(settings)]


def _function_timeout_problems(settings: Settings) -> list[str]:
    rules, timeout = settings.rules, settings.function.timeout_seconds
    if timeout is None or timeout > rules.budget_seconds + rules.attempt_seconds:
        return []
    problem = (
        f"the function's timeout (CLOUD_RUN_TIMEOUT_SECONDS, {timeout}) must be longer than "
        f"CHARGE_BUDGET_SECONDS plus one attempt ({rules.budget_seconds:g} + "
        f"{rules.attempt_seconds:g}): else a charge is cut off half-way"
    )
    return [problem]


def _read_run(reader: SettingsReader) -> RunSettings:
    expected = reader.whole("BILLING_EXPECTED_TOTAL_CENTS", 0, least=0, most=10**15)
    return RunSettings(
        cap_percent=reader.whole("BILLING_CAP_PERCENT", 110, least=100, most=1000),
        period_format=reader.period_format("BILLING_PERIOD_FORMAT", "%Y-%m"),
        period_offset=reader.whole("BILLING_PERIOD_OFFSET", -1, least=-1000, most=1000),
        expected_total_cents=expected or None,
        expected_total_sql=reader.text("BILLING_EXPECTED_TOTAL_SQL"),
    )
