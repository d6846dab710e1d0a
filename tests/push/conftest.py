"""The push function under the real functions-framework, with everything that it talks to."""

from collections.abc import Iterator

import pytest

from local.postgres import DatabaseServer
from local.stripe_simulator import serve_in_thread
from tests.support.deployment import Deployment
from tests.support.pubsub import PublisherService, serve_publisher


@pytest.fixture(scope="module")
def module_database_url(
    postgres_server: DatabaseServer, migrated_template_url: str
) -> Iterator[str]:
    """The address of a database for the tests of one module, with the newest schema."""
    url = postgres_server.create_database(template=migrated_template_url)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="module")
def publisher() -> Iterator[PublisherService]:
    """Pub/Sub's publisher, for dead letters."""
    with serve_publisher() as service:
        yield service


@pytest.fixture(scope="module")
def deployment(module_database_url: str, publisher: PublisherService) -> Iterator[Deployment]:
    """A deployed push function; tests of a module share it, each with customers of its own."""
    with serve_in_thread() as stripe:
        deployment = Deployment(module_database_url, stripe, publisher.host_and_port)
        with deployment.running():
            yield deployment
            # Nothing that the tests did may have ended in a catch-all.
            codes = {line.get("code") for line in deployment.log_lines()}
            assert codes.isdisjoint({"unexpected_error", "database_unavailable"})
