"""What is uploaded to either cloud is all that is needed there, and nothing that must stay here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from local.google_function import GoogleFunction
from tests.support.deployment import Deployment
from tests.support.servicebus import COMPLETED, Desk
from tests.uploads.isolation import ISOLATED, RUNTIME, link_packages, worker_folder
from tests.uploads.uploading import FUNC, GCLOUD, ROOT, upload, uploaded_files

# What people have lying around, and what must never leave the machine.
LYING_AROUND = (
    ".env",
    ".env.production",
    "local.settings.json",
    "gcp_function/__pycache__/push.cpython-313.pyc",
    "shared/__pycache__/key.cpython-313.pyc",
    ".venv/lib/secret.py",
    ".git/config",
    "infra/gcp/production.auto.tfvars",
    "infra/azure/secrets.bicepparam",
    "tests/test_nothing.py",
    "build/functions-1.zip",
)


@pytest.fixture(scope="module")
def desk_of_somebody(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with what lies around on somebody's desk."""
    root = tmp_path_factory.mktemp("somebody") / "repository"
    for ignore_file in (FUNC, GCLOUD):
        upload(ROOT, ignore_file, root)
        shutil.copy(ROOT / ignore_file, root)
    for name in LYING_AROUND:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("hunter2")
    return root


@pytest.mark.parametrize(
    ("ignore_file", "expected"),
    [
        (FUNC, {"azure_function", "function_app.py", "host.json", "requirements.txt", "shared"}),
        (GCLOUD, {"gcp_function", "main.py", "requirements.txt", "shared"}),
    ],
)
def test_nothing_else_is_uploaded(
    desk_of_somebody: Path, ignore_file: str, expected: set[str]
) -> None:
    """Goal: exactly what is meant to be, whatever else lies there."""
    files = uploaded_files(desk_of_somebody, ignore_file)
    assert {Path(name).parts[0] for name in files} == expected
    assert files.isdisjoint(LYING_AROUND)
    assert {Path(name).suffix for name in files} <= {".py", ".sql", ".json", ".txt"}


def test_gcloud_itself_says_the_same(requires_gcloud: Path, desk_of_somebody: Path) -> None:
    """Goal: as gcloud reads .gcloudignore, not as we think that it does."""
    done = subprocess.run(
        [requires_gcloud, "meta", "list-files-for-upload", desk_of_somebody],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == uploaded_files(desk_of_somebody, GCLOUD)


def bill_on_azure(
    desk: Desk, uploaded: Path, python: Sequence[str], folder: Path, path: str
) -> None:
    """Load the function app from what was uploaded, and bill one event.

    Args:
        desk: with its queue.
        uploaded: where that is.
        python: starts the interpreter.
        folder: for what Azure brings.
        path: where the interpreter finds packages.
    """
    from local.functions_host.host import FunctionsHost
    from local.functions_host.worker_process import Platform

    worker = worker_folder(folder / "worker")
    runtime = link_packages({RUNTIME}, folder / "runtime")
    environment = {**desk.environment, "PYTHONPATH": f"{path}:{runtime}"}
    with FunctionsHost(environment, uploaded, platform=Platform(python, worker)):
        desk.send(desk.customer("uploaded"), "message-1")
        desk.wait_for("message-1", COMPLETED)
    assert desk.charged_cents("uploaded") == [5000]


def bill_on_google(
    deployment: Deployment, uploaded: Path, python: Sequence[str], path: str
) -> None:
    """Load `bill` from what was uploaded, and bill one event; see `bill_on_azure`."""
    deployment.open_run()
    environment = {**deployment.environment, "PYTHONPATH": path}
    deployment.function = GoogleFunction("bill", environment, uploaded / "main.py", python)
    with deployment.function:
        assert deployment.push(deployment.customer("uploaded")) == 204
    assert deployment.charged_cents("uploaded") == [5000]


@pytest.mark.usefixtures("requires_functions_runtime")
def test_what_func_uploads_bills(
    desk: Desk, func_upload: Path, packages: Path, tmp_path: Path
) -> None:
    """Goal: with the packages of requirements.txt, and none that happens to be installed here."""
    bill_on_azure(desk, func_upload, ISOLATED, tmp_path, str(packages))


def test_what_gcloud_uploads_bills(
    deployment: Deployment, gcloud_upload: Path, packages: Path
) -> None:
    """Goal: the same on Google Cloud."""
    bill_on_google(deployment, gcloud_upload, ISOLATED, str(packages))


def test_packages_of_development_are_not_found(packages: Path) -> None:
    """Goal: what the two tests above rely on."""
    for name, code in (("stripe", 0), ("pytest", 1), ("rich", 1), ("psutil", 1)):
        done = subprocess.run(
            [*ISOLATED, "-c", f"import {name}"],
            cwd=packages,
            env={"PYTHONPATH": str(packages)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == code, name


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("requires_functions_runtime")
def test_both_uploads_bill_where_requirements_alone_are_installed(
    desk: Desk, deployment: Deployment, func_upload: Path, gcloud_upload: Path, tmp_path: Path
) -> None:
    """Goal: each installed from the requirements.txt that is in its upload."""
    azure = _install(func_upload, tmp_path / "azure")
    bill_on_azure(desk, func_upload, [str(azure)], tmp_path, "")
    google = _install(gcloud_upload, tmp_path / "google")
    deployment.execute("DELETE FROM chargeonce.attempts")
    deployment.execute("DELETE FROM chargeonce.records")
    deployment.stripe.reset()
    bill_on_google(deployment, gcloud_upload, [str(google)], "")


def _install(uploaded: Path, folder: Path) -> Path:
    """Its requirements in an environment of their own; the interpreter there."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "-r", uploaded / "requirements.txt"], check=True
    )
    return python
