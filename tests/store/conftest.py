"""Fixtures: a store of either kind, or the PostgreSQL one where only the database decides."""

from collections.abc import Iterator

import pytest

from local.postgres import DatabaseServer
from tests.support.store import MemoryUnderTest, PostgresUnderTest, StoreUnderTest


@pytest.fixture(scope="session")
def shared_postgres(
    postgres_server: DatabaseServer, migrated_template_url: str
) -> Iterator[PostgresUnderTest]:
    """The PostgreSQL store in a database that the tests of this folder share."""
    database_url = postgres_server.create_database(template=migrated_template_url)
    under_test = PostgresUnderTest(database_url)
    yield under_test
    under_test.close()
    postgres_server.drop_database(database_url)


@pytest.fixture
def postgres(shared_postgres: PostgresUnderTest) -> PostgresUnderTest:
    """The PostgreSQL store, without a row."""
    shared_postgres.empty()
    return shared_postgres


@pytest.fixture(params=["memory", "postgres"])
def stores(request: pytest.FixtureRequest) -> StoreUnderTest:
    """Each store in turn, without a row."""
    if request.param == "memory":
        return MemoryUnderTest()
    postgres: PostgresUnderTest = request.getfixturevalue("postgres")
    return postgres


@pytest.fixture
def billing(stores: StoreUnderTest) -> StoreUnderTest:
    """Each store in turn, with an open run that has room for two of the usual amounts."""
    stores.open_run()
    return stores
