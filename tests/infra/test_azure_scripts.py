"""The deploy scripts, run, with stand-ins for `az` and `func` that write down their calls."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.infra.tools import ROOT

SCRIPTS = ROOT / "infra" / "azure"
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
[ "$(basename "$0")" = func ] && pwd >> "$CALLS"
case "$*" in
*AZURE_VAULT_*) ;;
*outputs.*) echo value-of-an-output ;;
esac
"""


@dataclass(frozen=True)
class Desk:
    """Where the scripts run."""

    directory: Path

    def run(self, script: str, *arguments: str, **environment: str) -> tuple[int, list[str]]:
        """Run a script; return its exit code, and how the tools were called."""
        calls = self.directory / "calls"
        calls.write_text("")
        done = subprocess.run(
            ["sh", SCRIPTS / script, *arguments],
            env={
                "PATH": f"{self.directory}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(self.directory),
                "CALLS": str(calls),
                "RESOURCE_GROUP": "group",
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, calls.read_text().splitlines()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """One with the stand-ins."""
    for tool in ("az", "func"):
        (tmp_path / tool).write_text(STAND_IN)
        (tmp_path / tool).chmod(0o755)
    return Desk(tmp_path)


def test_provision_makes_the_group_and_asks_first(desk: Desk) -> None:
    """Goal: one command, and nothing is changed before it was shown."""
    code, calls = desk.run("provision.sh", "production")
    assert code == 0
    assert calls[0] == "az group create --name group --location northeurope --output none"
    parameters = SCRIPTS / "production.bicepparam"
    assert calls[1] == (
        "az deployment group create --resource-group group --name chargeonce "
        f"--parameters {parameters} --confirm-with-what-if --output none"
    )
    assert desk.run("provision.sh", "staging") == (2, [])
    assert desk.run("provision.sh", "production", RESOURCE_GROUP="")[1] == []


def test_publish_sends_the_code_to_the_apps_that_there_are(desk: Desk) -> None:
    """Goal: from the root, where function_app.py is, and not to a proxy that is not deployed."""
    code, calls = desk.run("publish.sh")
    assert code == 0
    published = [call for call in calls if not call.startswith("az ")]
    publish = "func azure functionapp publish value-of-an-output --build remote"
    assert published == [publish, str(ROOT)]


def test_what_azd_put_out_is_taken(desk: Desk) -> None:
    """Goal: after `azd up` the other scripts work too."""
    _, calls = desk.run("publish.sh", AZURE_FUNCTION_APP="app-of-azd")
    assert "func azure functionapp publish app-of-azd --build remote" in calls


def test_rollback_publishes_an_earlier_commit(desk: Desk) -> None:
    """Goal: the code of that commit, and nothing of what lies here."""
    code, calls = desk.run("rollback.sh", "HEAD")
    assert code == 0
    assert calls[-1] != str(ROOT)
    assert not Path(calls[-1]).exists(), "it cleans up after itself"
    left = subprocess.check_output(["git", "worktree", "list"], cwd=ROOT, text=True)
    assert calls[-1] not in left


@pytest.mark.parametrize("key", ["", "sk_live_1", "rk_live_1"])
def test_smoke_takes_no_live_key(desk: Desk, key: str) -> None:
    """Goal: nobody is charged to try it out."""
    code, calls = desk.run("smoke.sh", STRIPE_TEST_KEY=key)
    assert code != 0
    assert calls == []


def test_teardown_leaves_the_question_to_azure(desk: Desk) -> None:
    """Goal: it asks; a script that says yes would not."""
    assert desk.run("teardown.sh") == (0, ["az group delete --name group"])
