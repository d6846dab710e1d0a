"""What Terraform would create, as Terraform itself says, without Google."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
GCP: Final = ROOT / "infra" / "gcp"
PLAN_SECONDS: Final = 60

DATABASE: Final = GCP / "database"
VAULT: Final = GCP / "vault"

_PROJECT: Final = {"project": "a-project"}
_IMAGE: Final = f"europe-docker.pkg.dev/a-project/chargeonce/chargeonce@sha256:{'0' * 64}"
_SOURCE: Final = {"source_archive": "source.zip"}
# What has no default.
REQUIRED: Final[Mapping[Path, Mapping[str, Any]]] = {
    GCP: {**_PROJECT, **_SOURCE, "image": _IMAGE},
    DATABASE: _PROJECT,
    VAULT: {**_PROJECT, **_SOURCE},
}


class PlanRefused(Exception):
    """Terraform refuses the configuration or its variables; holds what it says."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The resources that would be created, by address such as `google_pubsub_topic.events`."""

    resources: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Any]

    def of_type(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """The values of every resource of one kind, without the leading `google_`."""
        for address, values in self.resources.items():
            if address.startswith(f"google_{kind}."):
                yield values

    def only(self, kind: str) -> Mapping[str, Any]:
        """The values of the only resource of its kind."""
        (values,) = self.of_type(kind)
        return values


class Terraform:
    """Terraform with a provider that stands in for Google's.

    Args:
        program: where Terraform is.
        provider: the environment that leads to the provider.
        folder: for copies of the configurations and their plans.
    """

    def __init__(self, program: Path, provider: Mapping[str, str], folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TF_")},
            **provider,
            "CHECKPOINT_DISABLE": "1",
            "TF_CLI_CONFIG_FILE": os.devnull,
        }

    def plan(
        self,
        variables: Mapping[str, Any] | None = None,
        root: Path = GCP,
        variables_file: Path | None = None,
    ) -> Plan:
        """Plan one configuration.

        Args:
            variables: what is set besides what every plan needs.
            root: the configuration's folder.
            variables_file: read first.

        Raises:
            PlanRefused: Terraform reports an error.
        """
        folder = self._copy(root)
        given = {**REQUIRED[root], **(variables or {})}
        (folder / "z.auto.tfvars.json").write_text(json.dumps(given), encoding="utf-8")
        files = [] if variables_file is None else [f"-var-file={variables_file}"]
        options = ["-input=false", "-lock=false", "-refresh=false", "-out=plan"]
        self._run(folder, "plan", *options, *files)
        return _read(json.loads(self._run(folder, "show", "-json", "plan")))

    def _copy(self, root: Path) -> Path:
        folder = self._folder / root.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in root.glob("*.tf"):
            # The state would lie in Google Cloud.
            if file.name != "backend.tf":
                shutil.copy(file, folder)
        (folder / "source.zip").touch()
        return folder

    def _run(self, folder: Path, command: str, *options: str) -> str:
        done = subprocess.run(
            [self._program, command, "-no-color", *options],
            cwd=folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PLAN_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise PlanRefused(" ".join(done.stderr.replace("│", " ").split()))
        return done.stdout


def _read(shown: Mapping[str, Any]) -> Plan:
    planned = shown["planned_values"]
    resources = {each["address"]: each["values"] for each in planned["root_module"]["resources"]}
    outputs = {name: each.get("value") for name, each in planned.get("outputs", {}).items()}
    return Plan(resources, outputs)
