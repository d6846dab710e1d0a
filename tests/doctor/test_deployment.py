"""What runs is looked at: a real database, the real SDKs, the emulators. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.fernet import Fernet

from local.pubsub_emulator import PubsubEmulator
from local.stripe_simulator import RunningSimulator
from local.stripe_simulator.keyring import Permission
from ops.doctor.readers import database
from ops.doctor.readers.pubsub import grants_to_service_agent
from ops.exit_codes import ExitCode
from shared.ports import StoredKey
from shared.record import Flow
from shared.sealing import FernetSeal
from shared.store.migrations import schema_version
from shared.store.postgres import PostgresStore
from shared.store.run_keys import PostgresRunKeys
from tests.cli.conftest import PERIOD, CommandLine
from tests.pubsub_emulator.support import Cloud
from tests.support.servicebus_management import HOST, make_certificate, serving_entries

PROJECT = "projects/chargeonce-desk"
EVENTS, DEAD_LETTERS = f"{PROJECT}/topics/events", f"{PROJECT}/topics/dead-letters"
SECRET = "hunter2"
ENCRYPTION_KEY = Fernet.generate_key().decode()
ENTRY = """<?xml version="1.0"?><entry xmlns="http://www.w3.org/2005/Atom"><title>usage</title>
<content type="application/xml"><{kind}Description
xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">
<LockDuration>{lock}</LockDuration><RequiresDuplicateDetection>{detects}</RequiresDuplicateDetection>
<RequiresSession>false</RequiresSession>
<DeadLetteringOnMessageExpiration>{keeps}</DeadLetteringOnMessageExpiration>
<MaxDeliveryCount>{deliveries}</MaxDeliveryCount></{kind}Description></content></entry>"""


def rules(document: dict[str, Any]) -> list[str]:
    """The names of the rules that found something."""
    return [finding["rule"] for finding in document["findings"]]


@pytest.fixture(autouse=True)
def durable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests' server pass, which writes nothing to disk, to be fast."""
    if "fast_server" not in request.node.name:
        monkeypatch.setattr(database, "DURABLE", ())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of Service Bus' management API."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def emulator() -> Iterator[PubsubEmulator]:
    """Pub/Sub's emulator."""
    with PubsubEmulator() as emulator:
        yield emulator


class TestDatabase:
    def test_fast_server(self, deployed: CommandLine) -> None:
        """Goal: the server of these tests is not one to charge with."""
        ran = deployed("doctor", "--json")
        assert rules(ran.document) == ["commits_not_durable"] * 2
        assert ran.code == ExitCode.FINDINGS

    def test_nothing_is_found_where_nothing_is_wrong(self, deployed: CommandLine) -> None:
        ran = deployed("doctor", "--strict", "--json")
        assert ran.document["findings"] == []
        assert ran.document["complete"]
        assert ran.code == ExitCode.OK

    def test_lazy_commits(self, deployed: CommandLine, migrated_database_url: str) -> None:
        with psycopg.connect(migrated_database_url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(
                f'ALTER ROLE CURRENT_USER IN DATABASE "{name}" '
                "SET synchronous_commit = off".encode()
            )
        ran = deployed("doctor", "--json")
        assert rules(ran.document) == ["commits_not_synchronous"]
        assert ran.code == ExitCode.FINDINGS

    def test_old_schema(self, deployed: CommandLine, migrated_database_url: str) -> None:
        with psycopg.connect(migrated_database_url) as connection:
            connection.execute(
                "DELETE FROM chargeonce.migrations WHERE number = %s", [schema_version()]
            )
        assert rules(deployed("doctor", "--json").document) == ["schema_old"]

    def test_unreachable(self, deployed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DATABASE_URL", f"postgresql://u:{SECRET}@127.0.0.1:1/none")
        ran = deployed("doctor", "--json")
        assert rules(ran.document) == ["database_unreachable"]
        assert SECRET not in ran.stdout + ran.stderr

    def test_connections_are_added_up(self, deployed: CommandLine) -> None:
        ran = deployed("doctor", "--instances", "5000", "--json")
        assert "too_many_connections" in rules(ran.document)


class TestStripe:
    def test_missing_permissions(
        self, deployed: CommandLine, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: what is needed only in trouble is missed before the trouble."""
        held = {"payment_intents": Permission.WRITE, "customers": Permission.READ}
        simulator.control.register_key("rk_test_narrow", permissions=held)
        monkeypatch.setenv("STRIPE_API_KEY", "rk_test_narrow")
        document = deployed("doctor", "--json").document
        said = [finding["what"] for finding in document["findings"]]
        assert set(rules(document)) == {"permission_missing"}
        assert [what.rpartition(": ")[2] for what in said] == ["read Charges", "read Disputes"]

    def test_refused_key(
        self, deployed: CommandLine, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        simulator.control.register_key("rk_test_old")
        simulator.control.revoke_key("rk_test_old")
        monkeypatch.setenv("STRIPE_API_KEY", "rk_test_old")
        assert rules(deployed("doctor", "--json").document) == ["key_refused"]

    def test_another_mode_and_account_than_the_records(
        self, deployed: CommandLine, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: a live key over records of test mode; also it would go to a host of a desk."""
        store.identify("acct_another", False)
        monkeypatch.setenv("STRIPE_API_KEY", "rk_live_deployed")
        found = rules(deployed("doctor", "--json").document)
        assert set(found) == {"modes_differ", "accounts_differ", "live_key_elsewhere"}

    def test_secret_key(self, deployed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        """Goal: a warning, which decides only where it is asked to."""
        monkeypatch.setenv("STRIPE_API_KEY", f"sk_test_{SECRET}")
        ran = deployed("doctor", "--json")
        assert (rules(ran.document), ran.code) == (["secret_key"], ExitCode.OK)
        assert deployed("doctor", "--strict").code == ExitCode.FINDINGS
        assert SECRET not in ran.stdout

    def test_no_answer_is_told(
        self, deployed: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("STRIPE_API_BASE", "http://127.0.0.1:1")
        ran = deployed("doctor", "--json")
        assert ran.code == ExitCode.INCOMPLETE
        assert len(ran.document["unread"]) == 4


class TestVaultKeys:
    @pytest.fixture
    def behind_proxy(self, deployed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
        monkeypatch.delenv("STRIPE_API_KEY")
        monkeypatch.setenv("VAULT_PROVIDER", "proxy")
        monkeypatch.setenv("VAULT_PROXY_URL", "https://proxy.example")
        monkeypatch.setenv("VAULT_ENCRYPTION_KEY", ENCRYPTION_KEY)
        return deployed

    def _store(self, database_url: str, expires_in: timedelta, encryption_key: str) -> None:
        """A key for the run that is open, minted an hour ago."""
        now = datetime.now(UTC)
        sealed = FernetSeal([encryption_key]).close(SECRET)
        flows = frozenset({Flow.PAYMENT_INTENT})
        key = StoredKey("vk_1", sealed, flows, 100_000, True, now - timedelta(hours=1),
                        now + expires_in)  # fmt: skip
        with closing(PostgresRunKeys(database_url)) as keys:
            begun = keys.begin_key(PERIOD, 0)
            assert begun is not None
            assert keys.store_key(PERIOD, begun.generation, key)

    def test_missing(self, behind_proxy: CommandLine) -> None:
        assert rules(behind_proxy("doctor", "--json").document) == ["vault_key_missing"]

    @pytest.mark.parametrize(
        ("expires_in", "rule"),
        [
            (timedelta(hours=5), []),
            (timedelta(minutes=50), ["vault_key_to_be_replaced"]),
            (timedelta(minutes=-5), ["vault_key_missing"]),
        ],
    )
    def test_age(
        self,
        behind_proxy: CommandLine,
        migrated_database_url: str,
        expires_in: timedelta,
        rule: list[str],
    ) -> None:
        """Goal: past its half-life it is to be replaced, past its end it is gone."""
        self._store(migrated_database_url, expires_in, ENCRYPTION_KEY)
        ran = behind_proxy("doctor", "--json")
        assert rules(ran.document) == rule
        assert SECRET not in ran.stdout

    def test_cap(
        self, behind_proxy: CommandLine, migrated_database_url: str, store: PostgresStore
    ) -> None:
        self._store(migrated_database_url, timedelta(hours=5), ENCRYPTION_KEY)
        with psycopg.connect(migrated_database_url) as connection:
            connection.execute("UPDATE chargeonce.runs SET cap_cents = cap_cents + 1")
        found = behind_proxy("doctor", "--json").document
        assert rules(found) == ["vault_key_to_be_replaced"]
        assert "cap was changed" in found["findings"][0]["what"]

    def test_another_encryption_key(
        self, behind_proxy: CommandLine, migrated_database_url: str
    ) -> None:
        other = Fernet.generate_key().decode()
        self._store(migrated_database_url, timedelta(hours=5), other)
        assert rules(behind_proxy("doctor", "--json").document) == ["encryption_key_wrong"]

    def test_missing_encryption_key(
        self, behind_proxy: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("VAULT_ENCRYPTION_KEY")
        found = behind_proxy("doctor", "--json").document
        assert rules(found) == ["settings_refused"]
        assert found["findings"][0]["what"].startswith("VAULT_ENCRYPTION_KEY")

    def test_plain_http(self, behind_proxy: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VAULT_PROXY_URL", "http://proxy.example")
        assert "key_sent_unencrypted" in rules(behind_proxy("doctor", "--json").document)


class TestServiceBus:
    @pytest.fixture
    def on_azure(
        self, deployed: CommandLine, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> CommandLine:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        monkeypatch.setenv("PYTHON_THREADPOOL_THREAD_COUNT", "8")
        monkeypatch.setenv("BILLING_QUEUE", "usage")
        monkeypatch.setenv("BILLING_MAX_DELIVERIES", "100")
        return deployed

    def _connect(self, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
        endpoint = f"Endpoint=sb://{HOST}:{port};SharedAccessKeyName=x;SharedAccessKey={SECRET};"
        monkeypatch.setenv("ServiceBus", endpoint)

    @pytest.mark.parametrize("topic", [False, True])
    def test_what_the_queue_says(
        self,
        on_azure: CommandLine,
        certificate: Path,
        topic: bool,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Goal: by the real SDK, for a queue and for a topic's subscription."""
        if topic:
            monkeypatch.delenv("BILLING_QUEUE")
            monkeypatch.setenv("BILLING_TOPIC", "usage")
            monkeypatch.setenv("BILLING_SUBSCRIPTION", "billing")
        said = {"lock": "PT5M", "detects": "false", "keeps": "true", "deliveries": 100}

        def entry_of(path: str) -> str:
            kind = "Subscription" if "ubscriptions/" in path else "Topic" if topic else "Queue"
            return ENTRY.format(kind=kind, **said)

        with serving_entries(certificate, entry_of) as port:
            self._connect(port, monkeypatch)
            ran = on_azure("doctor", "--strict", "--json")
            assert ran.document["findings"] == []
            assert ran.code == ExitCode.OK
            said.update(lock="PT30S", detects="true", keeps="false", deliveries=10)
            found = rules(on_azure("doctor", "--json").document)
        assert set(found) == {
            "lock_too_short",
            "deliveries_disagree",
            "outage_uses_deliveries_up",
            "expired_messages_deleted",
            "duplicates_detected",
        }

    def test_without_rights_it_is_told(
        self, on_azure: CommandLine, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with serving_entries(certificate, lambda _: "", 401) as port:
            self._connect(port, monkeypatch)
            ran = on_azure("doctor")
        assert ran.code == ExitCode.INCOMPLETE
        assert "Azure Service Bus Data Owner" in ran.stdout
        assert SECRET not in ran.stdout + ran.stderr


class TestPubsub:
    @pytest.fixture
    def cloud(self, emulator: PubsubEmulator) -> Iterator[Cloud]:
        cloud = Cloud("own", emulator.environment, emulator.control)
        yield cloud
        cloud.close()

    @pytest.fixture
    def on_google(
        self, deployed: CommandLine, emulator: PubsubEmulator, monkeypatch: pytest.MonkeyPatch
    ) -> CommandLine:
        settings = {
            **emulator.environment,
            "GOOGLE_CLOUD_PROJECT": "chargeonce-desk",
            "PUBSUB_TOPIC": "events",
            "PUBSUB_DEAD_LETTER_TOPIC": "dead-letters",
            "BILLING_MAX_DELIVERIES": "100",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        return deployed

    def _create(self, cloud: Cloud, **wrong: Any) -> str:
        """A subscription as it should be, but for what is wrong; its name."""
        kind = "push" if "push_config" in wrong else "pull"
        for topic in (EVENTS, DEAD_LETTERS):
            cloud.publisher.create_topic(request={"name": topic})
        subscription = {
            "topic": EVENTS,
            "ack_deadline_seconds": 600,
            "expiration_policy": {},
            "retry_policy": {
                "minimum_backoff": {"seconds": 10},
                "maximum_backoff": {"seconds": 600},
            },
            "dead_letter_policy": {
                "dead_letter_topic": DEAD_LETTERS,
                "max_delivery_attempts": 100,
            },
            **wrong,
        }
        name = f"{PROJECT}/subscriptions/{kind}"
        request = {each: value for each, value in subscription.items() if value is not None}
        cloud.subscriber.create_subscription(request={"name": name, **request})
        return name

    def _create_dead_letters(self, cloud: Cloud, **wrong: Any) -> None:
        cloud.subscriber.create_subscription(
            request={
                "name": f"{PROJECT}/subscriptions/dead-letters",
                "topic": DEAD_LETTERS,
                "expiration_policy": {},
                **wrong,
            }
        )

    @pytest.fixture(autouse=True)
    def nothing_left(self, cloud: Cloud) -> Iterator[None]:
        yield
        for topic in (EVENTS, DEAD_LETTERS):
            for name in list(cloud.publisher.list_topic_subscriptions(topic=topic)):
                cloud.subscriber.delete_subscription(subscription=name)
            cloud.publisher.delete_topic(topic=topic)

    def test_what_the_subscription_says(self, on_google: CommandLine, cloud: Cloud) -> None:
        """Goal: nothing is found; that an emulator has no grants makes nothing incomplete."""
        self._create(cloud)
        self._create_dead_letters(cloud)
        ran = on_google("doctor", "--strict", "--json")
        assert ran.document["findings"] == []
        (unread,) = ran.document["unread"]
        assert unread["why"] == "the emulator has none"
        assert ran.code == ExitCode.OK

    def test_all_that_can_be_wrong_with_a_pull_subscription(
        self, on_google: CommandLine, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = self._create(
            cloud,
            ack_deadline_seconds=10,
            expiration_policy=None,
            retry_policy=None,
            message_retention_duration={"seconds": 3600},
        )
        monkeypatch.setenv("PUBSUB_SUBSCRIPTION", name)
        found = rules(on_google("doctor", "--json").document)
        assert set(found) == {
            "ack_deadline_too_short",
            "outage_uses_deliveries_up",
            "subscription_expires",
            "no_retry_policy",
            "retention_short",
            "dead_letters_lost",
        }

    def test_all_that_can_be_wrong_with_a_push_subscription(
        self, on_google: CommandLine, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: the settings of a push function name no subscription, so its topic tells."""
        monkeypatch.setenv("PUBSUB_PUSH_SERVICE_ACCOUNT", "push@desk.iam.gserviceaccount.com")
        monkeypatch.setenv("CLOUD_RUN_TIMEOUT_SECONDS", "600")
        self._create(cloud, push_config={"push_endpoint": "http://127.0.0.1:1/"})
        self._create_dead_letters(cloud, expiration_policy={"ttl": {"seconds": 2678400}})
        found = rules(on_google("doctor", "--json").document)
        assert set(found) == {
            "timeout_above_ack_deadline",
            "subscription_expires",
            "push_without_token",
        }

    def test_push_and_pull_on_one_topic(self, on_google: CommandLine, cloud: Cloud) -> None:
        """Goal: told, and which of them is meant has to be said."""
        name = self._create(cloud)
        self._create_dead_letters(cloud)
        other = {"name": f"{PROJECT}/subscriptions/push", "topic": EVENTS}
        cloud.subscriber.create_subscription(
            request={**other, "push_config": {"push_endpoint": "http://127.0.0.1:1/"}}
        )
        ran = on_google("doctor", "--json")
        assert rules(ran.document) == ["delivered_to_two_subscriptions"]
        assert ran.code == ExitCode.INCOMPLETE
        ran = on_google("doctor", "--subscription", name, "--json")
        assert rules(ran.document) == ["delivered_to_two_subscriptions"]
        assert ran.code == ExitCode.OK


def test_the_grants_of_pubsubs_own_account() -> None:
    """Goal: its account counts, and nobody else's."""
    from google.iam.v1.policy_pb2 import Binding, Policy

    role = "roles/pubsub.publisher"
    agent = "serviceAccount:service-1@gcp-sa-pubsub.iam.gserviceaccount.com"
    somebody = "serviceAccount:somebody@project.iam.gserviceaccount.com"
    both = Policy(bindings=[Binding(role=role, members=[somebody, agent])])
    assert grants_to_service_agent(both, role)
    assert not grants_to_service_agent(both, "roles/pubsub.subscriber")
    assert not grants_to_service_agent(Policy(), role)
    others = Policy(bindings=[Binding(role=role, members=[somebody])])
    assert not grants_to_service_agent(others, role)
