"""The gcloud commands of scripts and documentation, judged by gcloud itself.

Goal: none of them is a guess, and the way without Terraform comes to what Terraform comes to.
Method: the scripts run, with a gcloud that writes down its calls. gcloud's own parser judges all of
them; those about topics and subscriptions are then run by gcloud against Google's emulator.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from azure_function.blueprint import USUAL_MINT_SCHEDULE, USUAL_RECONCILE_SCHEDULE
from local.pubsub_emulator_gcloud import GcloudPubsubEmulator
from tests.infra.gcloud import Call, Desk, documented_commands, judge
from tests.infra.planning import GCP, ROOT, Plan
from tests.infra.test_terraform import grants

PROJECT, NAME = "a-project", "chargeonce"
IMAGE = f"example.com/chargeonce@sha256:{'0' * 64}"
RETENTION = "--message-retention-duration=31d"
# The emulator still has the limit that Pub/Sub had before: seven days, 604800 s.
LONGEST_OF_EMULATOR = "--message-retention-duration=7d"

# Without what the repository has besides, which a development environment has on its path.
FROM_HERE_ALONE = """
import os, runpy, sys
keeps = ("site-packages", sys.base_prefix)
sys.path[:] = [os.getcwd(), *(each for each in sys.path if any(part in each for part in keeps))]
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__")
"""
EXIT_SETTINGS = 3

WRONG = (
    ("pubsub", "topics", "create", "usage", "--retention=31d"),
    ("pubsub", "subscriptions", "create", "bill", "--topic=usage", "--max-delivery-attempts=101"),
    ("run", "functions", "deploy", "bill"),
    ("functions", "deploy", "bill", "--gen2", "--ingress-settings=none"),
    ("pubsub", "topics"),
)


# Each script, as it is run here.
SCRIPTS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "accounts": (("gcloud/accounts.sh",), {}),
    "build": (("build.sh",), {}),
    "database": (("database.sh",), {}),
    "deploy pull": (("gcloud/deploy.sh",), {"DELIVERY": "pull", "IMAGE": IMAGE}),
    "deploy push": (("gcloud/deploy.sh",), {}),
    "migrate": (("migrate.sh",), {}),
    "provision": (("provision.sh", "development"), {}),
    "provision database": (("provision.sh", "database"), {}),
    "pubsub pull": (("gcloud/pubsub.sh",), {"DELIVERY": "pull"}),
    "pubsub push": (("gcloud/pubsub.sh",), {}),
    "rollback": (("rollback.sh", "bill", "chargeonce-bill-00007-abc"), {}),
    "rollback pull": (("rollback.sh", "pull", "chargeonce-pull-00007-abc"), {}),
    "secrets": (("secrets.sh", "stripe-api-key"), {}),
    "smoke": (("smoke.sh",), {"STRIPE_TEST_KEY": "rk_test_x"}),
    "teardown": (("teardown.sh", "development"), {}),
}


class Recordings(UserDict[str, list[Call]]):
    """What each script calls; it is run when somebody asks."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk

    def __missing__(self, name: str) -> list[Call]:
        script, environment = SCRIPTS[name]
        self[name] = self._desk.run(*script, **environment)
        return self[name]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return Recordings(Desk(tmp_path_factory.mktemp("desk")))


def _of_gcloud(calls: list[Call]) -> Iterator[Call]:
    return (call for call in calls if call.program == "gcloud")


@dataclass(frozen=True, slots=True)
class Judged:
    """What gcloud says, and what the emulator has when everything about Pub/Sub was run."""

    problems: list[str | None]
    refused: list[str | None]
    topics: dict[str, Any]
    subscriptions: dict[str, Any]


def _judge_everything(
    gcloud: Path, emulator: GcloudPubsubEmulator, recorded: Recordings, folder: Path
) -> Judged:
    commands = [(call.arguments, False) for name in SCRIPTS for call in _of_gcloud(recorded[name])]
    for name in ("pubsub push", "pubsub pull", "smoke"):
        commands += [(each, True) for each in _for_the_emulator(recorded[name], commands)]
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("infra/**/*.md")]
    commands += [
        (arguments[1:], False) for file in documents for arguments in documented_commands(file)
    ]
    assert len(commands) > 60
    commands += [(each, False) for each in WRONG]
    address = f"http://{emulator.host_and_port}/"
    environment = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB": address}
    said = judge(gcloud, commands, folder, environment)
    return Judged(
        said[: -len(WRONG)],
        said[-len(WRONG) :],
        _listed(address, "topics"),
        _listed(address, "subscriptions"),
    )


def _for_the_emulator(
    calls: list[Call], earlier: list[tuple[tuple[str, ...], bool]]
) -> Iterator[tuple[str, ...]]:
    """What makes topics and subscriptions and publishes to them, each once."""
    for call in _of_gcloud(calls):
        if call.arguments[0] == "pubsub" and "add-iam-policy-binding" not in call.arguments:
            arguments = call.arguments
            if "subscriptions" in arguments:
                arguments = tuple(
                    LONGEST_OF_EMULATOR if each == RETENTION else each for each in arguments
                )
            if "publish" in arguments or (arguments, True) not in earlier:
                yield arguments


def _listed(address: str, kind: str) -> dict[str, Any]:
    with urlopen(f"{address}v1/projects/{PROJECT}/{kind}", timeout=10) as answer:
        found = json.load(answer)
    return {each["name"].rpartition("/")[2]: each for each in found.get(kind, [])}


def test_gcloud_takes_every_command_and_makes_what_terraform_would(
    requires_gcloud: Path,
    requires_pubsub_emulator: Path,
    recorded: Recordings,
    plans: Mapping[str, Plan],
    tmp_path: Path,
) -> None:
    """One test, since gcloud and the emulator take seconds to start."""
    with GcloudPubsubEmulator(requires_pubsub_emulator, PROJECT) as emulator:
        judged = _judge_everything(requires_gcloud, emulator, recorded, tmp_path)
    assert [each for each in judged.problems if each is not None] == []
    # Else that would prove nothing.
    assert None not in judged.refused
    assert judged.topics == {
        each["name"]: {
            "name": f"projects/{PROJECT}/topics/{each['name']}",
            "messageRetentionDuration": each["message_retention_duration"],
        }
        for each in plans["push"].of_type("pubsub_topic")
    }
    wanted = {
        each["name"]: _as_pubsub_says(each)
        for plan in plans.values()
        for each in plan.of_type("pubsub_subscription")
    }
    assert judged.subscriptions == wanted
    assert len(wanted) == 3


@pytest.fixture(scope="module")
def plans(push_plan: Plan, pull_plan: Plan) -> dict[str, Plan]:
    return {"push": push_plan, "pull": pull_plan}


class TestScripts:
    def test_a_smoke_test_takes_no_live_key(self, tmp_path: Path) -> None:
        done = Desk(tmp_path).try_to_run("smoke.sh", STRIPE_TEST_KEY="rk_live_x")
        assert done.returncode == 2
        assert "not a key of the test mode" in done.stderr

    def test_no_key_is_on_a_command_line(self, recorded: Recordings) -> None:
        """Every user of the machine could read it there."""
        assert all("rk_test_x" not in " ".join(call.arguments) for call in recorded["smoke"])

    def test_events_are_not_delivered_both_ways(self, tmp_path: Path) -> None:
        done = Desk(tmp_path).try_to_run("gcloud/pubsub.sh", DELIVERY="both")
        assert done.returncode == 2
        assert "delivered twice" in done.stderr

    def test_the_timers_have_the_moments_of_azures(self, plans: Mapping[str, Plan]) -> None:
        """NCRONTAB has the seconds in front."""
        jobs = {each["name"]: each for each in plans["push"].of_type("cloud_scheduler_job")}
        assert f"0 {jobs[f'{NAME}-reconcile']['schedule']}" == USUAL_RECONCILE_SCHEDULE
        assert f"0 {jobs[f'{NAME}-mint']['schedule']}" == USUAL_MINT_SCHEDULE

    @pytest.mark.parametrize("command", [("ops", "migrate"), ("gcp_function.pull",)])
    def test_the_image_has_what_it_runs(self, tmp_path: Path, command: tuple[str, ...]) -> None:
        """Both get as far as their settings, which are not there, with the image's files alone."""
        for line in (GCP / "image.gcloudignore").read_text().splitlines():
            source = ROOT / line.removeprefix("!/")
            if line.startswith("!/") and "infra" not in line:
                copy = shutil.copytree if source.is_dir() else shutil.copy
                copy(source, tmp_path / source.name)
        done = subprocess.run(
            [sys.executable, "-c", FROM_HERE_ALONE, *command],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == EXIT_SETTINGS, done.stdout + done.stderr
        assert "DATABASE_URL is missing" in done.stdout + done.stderr

    def test_functions_get_what_gcloudignore_lets_through(self) -> None:
        """What Terraform deploys is archived by name; gcloud uploads what the file says."""
        (line,) = (
            line
            for line in (GCP / "build.sh").read_text().splitlines()
            if " archive --format=zip " in line
        )
        archived = set(line.partition(" HEAD ")[2].split())
        ignored = (ROOT / ".gcloudignore").read_text().splitlines()
        assert archived == {each[2:].rstrip("/") for each in ignored if each.startswith("!/")}


class TestTheSameAsTerraform:
    def test_retention(self, recorded: Recordings, plans: Mapping[str, Plan]) -> None:
        """See `LONGEST_OF_EMULATOR`: what is asked for is compared, not what came of it."""
        for delivery, plan in plans.items():
            created = [
                call for call in recorded[f"pubsub {delivery}"] if "create" in call.arguments
            ]
            assert all(RETENTION in call.arguments for call in created)
            kept = {
                each["message_retention_duration"]
                for kind in ("pubsub_topic", "pubsub_subscription")
                for each in plan.of_type(kind)
            }
            assert kept == {f"{31 * 86400}s"}

    @pytest.mark.parametrize("delivery", ["push", "pull"])
    def test_rights(self, recorded: Recordings, plans: Mapping[str, Plan], delivery: str) -> None:
        """But for the accounts that only Terraform makes: of builds, and of the command line."""
        scripts = ("accounts", f"deploy {delivery}", f"pubsub {delivery}")
        given = {
            _grant(call)
            for name in scripts
            for call in recorded[name]
            if "add-iam-policy-binding" in call.arguments
        }
        wanted = {
            (_member(member), role, _short(what))
            for member, role, what in grants(plans[delivery])
            if member not in ("operator.member", "builder.member")
        }
        assert given == wanted

    def test_functions(self, recorded: Recordings, plans: Mapping[str, Plan]) -> None:
        deployed = {
            call.arguments[2]: call
            for call in recorded["deploy push"]
            if call.arguments[:2] == ("functions", "deploy")
        }
        planned = {each["name"]: each for each in plans["push"].of_type("cloudfunctions2_function")}
        assert deployed.keys() == planned.keys()
        for name, call in deployed.items():
            (build,) = planned[name]["build_config"]
            (service,) = planned[name]["service_config"]
            assert call.option("entry-point") == build["entry_point"]
            assert call.option("runtime") == build["runtime"]
            assert call.option("timeout") == f"{service['timeout_seconds']}s"
            assert call.option("concurrency") == str(service["max_instance_request_concurrency"])
            assert call.option("max-instances") == str(service["max_instance_count"])
            assert call.option("memory") == f"{service['available_memory']}"
            assert call.option("service-account") == _account(service["service_account_email"])
            assert "--no-allow-unauthenticated" in call.arguments
            assert call.option("ingress-settings") == "internal-only"
            assert _pairs(call, "set-env-vars") == {
                setting: _account(value)
                for setting, value in service["environment_variables"].items()
            }
            assert _pairs(call, "set-secrets") == {
                each["key"]: f"{each['secret']}:{each['version']}"
                for each in service["secret_environment_variables"]
            }

    def test_timers(self, recorded: Recordings, plans: Mapping[str, Plan]) -> None:
        made = {
            call.arguments[4]: call
            for call in recorded["deploy push"]
            if call.arguments[:2] == ("scheduler", "jobs")
        }
        planned = {each["name"]: each for each in plans["push"].of_type("cloud_scheduler_job")}
        assert made.keys() == planned.keys()
        for name, call in made.items():
            job = planned[name]
            (retry,) = job["retry_config"]
            (target,) = job["http_target"]
            (token,) = target["oidc_token"]
            assert call.option("schedule") == job["schedule"]
            assert call.option("time-zone") == job["time_zone"]
            assert call.option("attempt-deadline") == job["attempt_deadline"]
            assert call.option("max-retry-attempts") == str(retry["retry_count"])
            assert call.option("min-backoff") == retry["min_backoff_duration"]
            assert call.option("max-backoff") == retry["max_backoff_duration"]
            assert call.option("http-method") == target["http_method"].lower()
            assert call.option("uri") == call.option("oidc-token-audience")
            assert call.option("oidc-service-account-email") == _account(
                token["service_account_email"]
            )

    def test_the_worker(self, recorded: Recordings, plans: Mapping[str, Plan]) -> None:
        (call,) = (
            each
            for each in recorded["deploy pull"]
            if each.arguments[:4] == ("beta", "run", "worker-pools", "deploy")
        )
        pool = plans["pull"].only("cloud_run_v2_worker_pool")
        (container,) = pool["template"][0]["containers"]
        assert call.arguments[4] == pool["name"]
        assert call.option("scaling") == str(pool["scaling"][0]["manual_instance_count"])
        assert [call.option("command"), *(call.option("args") or "").split(",")] == (
            container["command"]
        )
        assert _pairs(call, "set-env-vars") == {
            each["name"]: each["value"] for each in container["env"] if not each["value_source"]
        }


def _as_pubsub_says(planned: Mapping[str, Any]) -> dict[str, Any]:
    """A planned subscription in the words of Pub/Sub's API."""
    said: dict[str, Any] = {
        "name": f"projects/{PROJECT}/subscriptions/{planned['name']}",
        "topic": _topic(planned["topic"]),
        "ackDeadlineSeconds": planned["ack_deadline_seconds"],
        "messageRetentionDuration": "604800s",
        "retryPolicy": {
            "minimumBackoff": planned["retry_policy"][0]["minimum_backoff"],
            "maximumBackoff": planned["retry_policy"][0]["maximum_backoff"],
        },
        "expirationPolicy": {},
        "pushConfig": {},
    }
    assert planned["expiration_policy"] == [{"ttl": ""}]
    for policy in planned["dead_letter_policy"]:
        said["deadLetterPolicy"] = {
            "deadLetterTopic": _topic(policy["dead_letter_topic"]),
            "maxDeliveryAttempts": policy["max_delivery_attempts"],
        }
    for push in planned["push_config"]:
        (token,) = push["oidc_token"]
        said["pushConfig"] = {
            "pushEndpoint": _function_address(push["push_endpoint"]),
            "oidcToken": {
                "serviceAccountEmail": _account(token["service_account_email"]),
                "audience": _function_address(token["audience"]),
            },
        }
    return said


def _topic(planned: str) -> str:
    return f"projects/{PROJECT}/topics/{_short(planned)}"


def _short(planned: str) -> str:
    """The name in what stands for an id."""
    return planned.removesuffix(".id").rpartition("/")[2]


def _function_address(planned: str) -> str:
    return f"https://{planned.removesuffix('.uri').rpartition('/')[2]}.run.app"


def _account(planned: str) -> str:
    """What stands for an account's address, as that address; anything else as it is."""
    kind, _, rest = planned.partition("/")
    if kind == "google_service_account":
        return f"{rest.rpartition('.')[0]}@{PROJECT}.iam.gserviceaccount.com"
    prefix = "serviceAccount:"
    return planned.removeprefix(prefix).replace("google_project.number", "1234567890")


def _member(granted: str) -> str:
    """Whom `grants` names, by the account's address."""
    name, dot, _ = granted.partition(".member")
    return f"{NAME}-{name}@{PROJECT}.iam.gserviceaccount.com" if dot else _account(granted)


def _grant(call: Call) -> tuple[str, str, str]:
    place = call.arguments.index("add-iam-policy-binding") + 1
    member = (call.option("member") or "").removeprefix("serviceAccount:")
    return member, call.option("role") or "", call.arguments[place]


def _pairs(call: Call, option: str) -> dict[str, str]:
    given = call.option(option) or ""
    return dict(each.split("=", 1) for each in given.split(","))
