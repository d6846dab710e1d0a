"""What a call costs in round trips to the database."""

from collections.abc import Callable

import pytest

from shared.store.caller import Caller, Parameters, Rows
from tests.support.vault import CHARGE, VaultBench
from tests.vault.test_spending import confirm, create


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Counts the statements that something runs."""
    statements: list[str] = []
    run = Caller.run

    def run_and_count(caller: Caller, query: str, parameters: Parameters) -> Rows:
        statements.append(query)
        return run(caller, query, parameters)

    monkeypatch.setattr(Caller, "run", run_and_count)

    def count(work: Callable[[], object]) -> int:
        statements.clear()
        work()
        return len(statements)

    return count


def test_a_call(vault: VaultBench, count: Callable[[Callable[[], object]], int]) -> None:
    """Goal: one before and one after; a key is looked up once, an amount at each confirm."""
    key = vault.mint()
    assert count(lambda: vault.post(key, "/v1/charges", CHARGE)) == 3
    assert count(lambda: vault.post(key, "/v1/charges", CHARGE)) == 2
    assert count(lambda: vault.get(key, "/v1/customers/cus_1")) == 2
    made = create(vault, key)
    assert count(lambda: confirm(vault, key, made)) == 3


def test_only_what_ends_a_hold_may_be_lost(vault: VaultBench) -> None:
    """Goal: the setting is gone with its transaction, so that every hold waits for the disk."""
    vault.post(vault.mint(), "/v1/charges", CHARGE)
    with vault.records._caller.pool.connection(float("inf")) as connection:
        assert connection.execute("SHOW synchronous_commit").fetchall() == [("on",)]
