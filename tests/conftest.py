"""Fixtures for all tests: databases of one's own, and programs that may be missing."""

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.functions_host import MISSING
from local.postgres import DatabaseServer, database_server
from local.pubsub_emulator_gcloud import GcloudPubsubEmulator
from local.tools import Missing, find_tool
from tests.support.missing import skip_outside_ci

# PostgreSQL is started by a fork where root runs the tests. gRPC would do something in the child of
# each fork, which now and then kills it; read when gRPC is imported, which is later.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[DatabaseServer]:
    """The PostgreSQL server of this test process: embedded, or the one in DATABASE_URL."""
    with database_server(fsync=False) as server:
        yield server


@pytest.fixture
def database_url(postgres_server: DatabaseServer) -> Iterator[str]:
    """The address of an empty database that only this test uses."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def migrated_template_url(postgres_server: DatabaseServer) -> Iterator[str]:
    """A database with the newest schema, to copy from; nothing may stay connected to it."""
    from shared.store.migrations import migrate

    url = postgres_server.create_database()
    migrate(url)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def migrated_database_url(
    postgres_server: DatabaseServer, migrated_template_url: str
) -> Iterator[str]:
    """The address of a database that only this test uses, with the newest schema and no rows."""
    url = postgres_server.create_database(template=migrated_template_url)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="module")
def forget_broken_connections() -> Iterator[None]:
    """Collect the sockets that Azure's SDK leaves open when its connection is cut.

    Else whichever test runs when they are collected fails for the warning.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def requires_gcloud() -> Path:
    """Where gcloud is."""
    return _require("gcloud")


@pytest.fixture(scope="session")
def requires_pubsub_emulator() -> Path:
    """Where Google's Pub/Sub emulator is; Java is there too."""
    return _require("pubsub-emulator")


@pytest.fixture(scope="session")
def gcloud_emulator(requires_pubsub_emulator: Path) -> Iterator[GcloudPubsubEmulator]:
    """Google's Pub/Sub emulator; one for the test process, since Java takes seconds to start."""
    with GcloudPubsubEmulator(requires_pubsub_emulator) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def requires_node() -> Path:
    """Where Node.js is."""
    return _require("node")


@pytest.fixture(scope="session")
def requires_terraform() -> Path:
    """Where Terraform is."""
    return _require("terraform")


@pytest.fixture(scope="session")
def requires_functions_runtime() -> None:
    """The real Functions runtime, which does not exist everywhere."""
    if MISSING:
        skip_outside_ci(
            f"the Functions runtime exists for Python 3.13 on Linux alone (missing: {MISSING})"
        )


def _require(name: str) -> Path:
    tool = find_tool(name)
    if isinstance(tool, Missing):
        skip_outside_ci(str(tool))
    return tool
