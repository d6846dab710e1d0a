"""What becomes of a call when its connection, the server or the network fails."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from local.postgres import EmbeddedPostgres
from shared.errors import PoolExhausted, RecordsUnavailable, SchemaMismatch, SettingsError
from shared.outcome import Outcome
from shared.ports import ClaimVerdict, Ending, Note, ParkedEvent, Release
from shared.record import Record, State, Verdict
from shared.store import caller as store_caller
from shared.store.migrations import migrate
from shared.store.postgres import PostgresStore
from tests.support.postgres_proxy import PostgresProxy
from tests.support.store import (
    AMOUNT_CENTS,
    BODY,
    CAP_CENTS,
    LEASE_SECONDS,
    PERIOD,
    PostgresUnderTest,
    claim_request,
    envelope,
    everything_seen,
    timeless,
)
from tests.support.waiting import wait_until

ANSWER_SECONDS = 30
NOTE = Note(envelope(), "decided")
ENDING = Ending(State.CHARGED, "pi_1")
TERMINATE = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE application_name = 'under-test' AND datname = current_database()
"""
BLOCKED = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'under-test' AND wait_event_type = 'Lock'
"""


@contextmanager
def store_at(database_url: str, pool_size: int = 1, **settings: str) -> Iterator[PostgresStore]:
    """A store under a name of its own, so that its connections can be told from others."""
    url = make_conninfo(database_url, application_name="under-test", **settings)
    store = PostgresStore(url, pool_size, pool_wait_seconds=0.2)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def opened(postgres: PostgresUnderTest) -> PostgresUnderTest:
    """The database with the usual run."""
    postgres.open_run()
    return postgres


@pytest.fixture
def proxy(opened: PostgresUnderTest) -> Iterator[PostgresProxy]:
    """A proxy in front of the database with the usual run."""
    with PostgresProxy(opened.database_url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """A server that only this module uses and may stop."""
    with EmbeddedPostgres(fsync=False) as server:
        yield server


def test_a_connection_that_was_cut_while_idle_is_replaced_unnoticed(
    opened: PostgresUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: nothing is sent on a connection that is known to be dead, so nothing is in doubt.

    Method: no error counts as a reason to try again.
    """
    with store_at(opened.database_url) as store:
        record = store.claim(claim_request()).record
        assert record is not None
        assert opened.execute(TERMINATE) == [(True,)]
        monkeypatch.setattr(store_caller, "is_lost", lambda error: False)
        assert store.finish(record, Ending(State.CHARGED, "pi_1"), NOTE, None).written
    assert opened.decisions() == ["claimed", "decided"]


def test_a_connection_that_is_cut_during_a_call_is_replaced(opened: PostgresUnderTest) -> None:
    """Goal: the call is made again on another connection and happens once."""
    opened.claimed()
    opened.pass_time(LEASE_SECONDS + 1)
    with (
        store_at(opened.database_url) as store,
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(opened.database_url) as holder,
    ):
        holder.execute("SELECT FROM chargeonce.records FOR UPDATE")
        claim = pool.submit(store.claim, claim_request())
        wait_until(lambda: opened.execute(BLOCKED) == [(1,)], "the claim is blocked")
        opened.execute(TERMINATE)
        wait_until(lambda: opened.execute(BLOCKED) == [(1,)], "the second try is blocked")
        holder.rollback()
        result = claim.result(ANSWER_SECONDS)
    assert result.verdict is ClaimVerdict.CLAIMED
    assert result.record is not None
    assert result.record.fence == 2
    assert opened.decisions() == ["claimed", "claimed"]


Call = Callable[[PostgresStore, Record], object]
TOKEN = "00000000-0000-4000-8000-000000000001"
VERDICT = Verdict(State.DECLINED, "code", "message")
PARKED = ParkedEvent(Outcome.REJECTED.reason, "why", BODY)


def ending_as(state: State) -> Call:
    return lambda store, record: store.finish(record, Ending(state, "pi_1"), NOTE, PARKED)


CALLS: dict[str, Call] = {
    "claim of a new record": lambda store, _: store.claim(claim_request("customer-2", token=TOKEN)),
    "claim of a free record": lambda store, _: store.claim(claim_request(token=TOKEN)),
    "claim that is refused": lambda store, _: store.claim(claim_request(amount_cents=1)),
    "resume": lambda store, record: store.resume(
        record.record_id, envelope(), LEASE_SECONDS, TOKEN
    ),
    "store_payment": lambda store, record: store.store_payment(record.lease, "pi_1"),
    "store_verdict": lambda store, record: store.store_verdict(record.lease, VERDICT),
    "finish as charged": ending_as(State.CHARGED),
    "finish as declined": ending_as(State.DECLINED),
    "finish as rejected": ending_as(State.REJECTED),
    "finish as parked": ending_as(State.PARKED),
    "finish as processing": ending_as(State.PROCESSING),
    "release": lambda store, record: store.release(
        record.lease, Release(True, True, "code", 60.0), NOTE, PARKED
    ),
    "park": lambda store, _: store.park(PARKED, NOTE),
    "close_run": lambda store, _: store.close_run(PERIOD, "by hand"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_whose_answer_was_lost_is_sent_again_and_happens_once(
    name: str, postgres: PostgresUnderTest
) -> None:
    """Goal: the connection breaks after the commit; the answer and the rows are as without it.

    Method: the same call twice from the same beginning, once in peace, once through a proxy that
    cuts the connection when the server has committed.
    """

    def outcome(loses_answer: bool) -> tuple[object, list[object]]:
        postgres.empty()
        postgres.open_run()
        record = postgres.claimed()
        postgres.pass_time(LEASE_SECONDS + 1)
        with PostgresProxy(postgres.database_url) as proxy, store_at(proxy.url) as store:
            store.get_run(PERIOD)
            if loses_answer:
                proxy.lose_next_answer()
            result = CALLS[name](store, record)
            assert proxy.connections == (2 if loses_answer else 1)
        return timeless(result), everything_seen(postgres, ["customer-1", "customer-2"])

    expected = outcome(loses_answer=False)
    found = outcome(loses_answer=True)
    if name == "claim that is refused":
        # It changes nothing, so nothing tells the second from a second delivery but its line.
        assert found[0] == expected[0]
        assert postgres.decisions() == ["claimed", "conflict", "conflict"]
    else:
        assert found == expected


def test_a_network_that_swallows_answers_is_given_up(
    proxy: PostgresProxy, opened: PostgresUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: no call waits for ever, and what the lost one did is found by the next.

    Method: a proxy that goes on acknowledging, so that no limit of TCP's ever strikes.
    """
    monkeypatch.setattr(store_caller, "CALL_SECONDS", 1.0)
    request = claim_request()
    with store_at(proxy.url) as store:
        store.get_run(PERIOD)
        proxy.freeze()
        started = time.monotonic()
        with pytest.raises(RecordsUnavailable, match="timeout expired"):
            store.claim(request)
        assert time.monotonic() - started < 10
        assert proxy.connections == 1, "the time is spent, so it is not tried again"
        proxy.thaw()
        result = store.claim(request)
    assert result.verdict is ClaimVerdict.CLAIMED
    assert opened.money() == (AMOUNT_CENTS, 0)
    assert opened.decisions() == ["claimed"]


def test_an_exhausted_pool_is_told_from_a_database_that_is_away(
    opened: PostgresUnderTest,
) -> None:
    """Goal: nothing was sent; the operator reads which setting is too small."""
    record = opened.claimed()
    with (
        store_at(opened.database_url) as store,
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(opened.database_url) as holder,
    ):
        holder.execute("SELECT FROM chargeonce.records FOR UPDATE")
        blocked = pool.submit(store.finish, record, ENDING, NOTE, None)
        wait_until(lambda: opened.execute(BLOCKED) == [(1,)], "the ending is blocked")
        with pytest.raises(PoolExhausted, match="DATABASE_POOL_SIZE"):
            store.claim(claim_request("customer-2"))
        holder.rollback()
        assert blocked.result(ANSWER_SECONDS).written
        assert store.claim(claim_request("customer-2")).verdict is ClaimVerdict.CLAIMED


def test_a_statement_that_takes_too_long_is_given_up_and_not_repeated(
    opened: PostgresUnderTest,
) -> None:
    """Goal: the server's own limit is told by its code; a slow database is not asked twice."""
    record = opened.claimed()
    with (
        store_at(opened.database_url, options="-c statement_timeout=300") as store,
        psycopg.connect(opened.database_url) as holder,
    ):
        store.get_run(PERIOD)
        holder.execute("SELECT FROM chargeonce.records FOR UPDATE")
        started = time.monotonic()
        with pytest.raises(RecordsUnavailable, match="57014"):
            store.finish(record, ENDING, NOTE, None)
        assert time.monotonic() - started < 0.6
        holder.rollback()
        assert store.finish(record, ENDING, NOTE, None).written


def test_a_lock_that_takes_too_long_is_given_up(opened: PostgresUnderTest) -> None:
    """Goal: the same for the limit on locks; the connection stays in use."""
    record = opened.claimed()
    with (
        PostgresProxy(opened.database_url) as proxy,
        store_at(proxy.url, options="-c lock_timeout=100") as store,
        psycopg.connect(opened.database_url) as holder,
    ):
        holder.execute("SELECT FROM chargeonce.records FOR UPDATE")
        with pytest.raises(RecordsUnavailable, match="55P03"):
            store.finish(record, ENDING, NOTE, None)
        holder.rollback()
        assert store.finish(record, ENDING, NOTE, None).written
        assert proxy.connections == 1


@pytest.mark.parametrize("code", ["serialization_failure", "deadlock_detected"])
def test_a_transaction_that_stood_in_anothers_way_is_made_again(
    opened: PostgresUnderTest, code: str
) -> None:
    """Goal: such an error says that nothing was written and that trying again will help.

    Method: a trigger that fails once, which it remembers in a sequence.
    """
    opened.execute(
        f"""
        CREATE SEQUENCE failures;
        CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('failures') = 1 THEN
                RAISE EXCEPTION 'once' USING ERRCODE = '{code}';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER fail_once BEFORE INSERT ON chargeonce.attempts
        FOR EACH ROW EXECUTE FUNCTION fail_once();
        """
    )
    try:
        with store_at(opened.database_url) as store:
            assert store.claim(claim_request()).verdict is ClaimVerdict.CLAIMED
    finally:
        opened.execute("DROP FUNCTION fail_once CASCADE; DROP SEQUENCE failures")
    assert opened.money() == (AMOUNT_CENTS, 0)


def test_a_standby_is_left_for_its_successor(
    opened: PostgresUnderTest, proxy: PostgresProxy
) -> None:
    """Goal: a server that became read-only is asked once more over a new connection, no longer."""
    with store_at(proxy.url, options="-c default_transaction_read_only=on") as store:
        store.get_run(PERIOD)
        with pytest.raises(RecordsUnavailable, match="25006"):
            store.claim(claim_request())
    assert proxy.connections == 2


def test_a_defect_is_told_from_an_outage(opened: PostgresUnderTest) -> None:
    """Goal: the message names SQLSTATE and constraint, and holds none of the data."""
    record = opened.claimed("secret-customer")
    with pytest.raises(RecordsUnavailable) as raised:
        opened.store.finish(record, Ending(State.CHARGED, None), NOTE, None)
    assert "refused a statement (23514 CheckViolation records_check" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert opened.record("secret-customer") == record


def test_a_database_without_the_schema_says_what_to_run(database_url: str) -> None:
    """Goal: whoever forgot `migrate` reads so, whichever call comes first."""
    with store_at(database_url) as store:
        with pytest.raises(SchemaMismatch, match="chargeonce migrate"):
            store.claim(claim_request())
        with pytest.raises(SchemaMismatch, match="chargeonce migrate"):
            store.get_run(PERIOD)


def test_a_server_that_restarts_is_found_again(server: EmbeddedPostgres) -> None:
    """Goal: every connection of the pool is gone, and the next calls do not notice."""
    url = server.create_database()
    migrate(url)
    with store_at(url, pool_size=4) as store, ThreadPoolExecutor(4) as pool:
        store.open_run(PERIOD, "usd", CAP_CENTS, CAP_CENTS)
        list(pool.map(store.get_run, [PERIOD] * 4))
        server.restart()
        claims = pool.map(lambda name: store.claim(claim_request(name)).verdict, ["a", "b"])
        assert list(claims) == [ClaimVerdict.CLAIMED] * 2


def test_a_server_that_is_gone_is_told_at_once_and_without_its_address(
    server: EmbeddedPostgres,
) -> None:
    """Goal: no waiting for what does not answer, no secret in the message, then business again."""
    url = server.create_database()
    migrate(url)
    with store_at(url, password="hush") as store:
        store.open_run(PERIOD, "usd", CAP_CENTS, CAP_CENTS)
        server.stop()
        started = time.monotonic()
        with pytest.raises(RecordsUnavailable) as raised:
            store.claim(claim_request())
        assert time.monotonic() - started < 5
        server.start()
        assert store.claim(claim_request()).verdict is ClaimVerdict.CLAIMED
    message = str(raised.value)
    assert "away" in message
    assert not isinstance(raised.value, PoolExhausted)
    for secret in ("hush", str(server.log_file.parent), "postgres://", "dbname"):
        assert secret not in message


def test_a_server_that_changed_its_timeline_is_suspended(server: EmbeddedPostgres) -> None:
    """Goal: a server that went through recovery to a new timeline charges nobody.

    Method: what happens in a failover or a restore, on one server: it is told to recover from an
    archive that holds nothing, and begins a new timeline where its own log ends.
    """
    url = server.create_database()
    migrate(url)
    with store_at(url) as store:
        store.open_run(PERIOD, "usd", CAP_CENTS, CAP_CENTS)
        record = store.claim(claim_request()).record
        assert record is not None
        recover(server)
        assert store.claim(claim_request("customer-2")).verdict is ClaimVerdict.SUSPENDED
        assert store.claim(claim_request()).verdict is ClaimVerdict.SUSPENDED
        assert store.finish(record, ENDING, NOTE, None).written
        assert store.claim(claim_request()).verdict is ClaimVerdict.SUSPENDED


def recover(server: EmbeddedPostgres) -> None:
    """Put the server onto a new timeline."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET restore_command = 'false'")
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    server.stop()
    (Path(row[0]) / "recovery.signal").touch()
    server.start()


def test_another_servers_identity_is_suspended(opened: PostgresUnderTest) -> None:
    """Goal: a dump that was restored elsewhere is not the database that knows every charge."""
    record = opened.claimed()
    opened.release(record)
    opened.execute("UPDATE chargeonce.cluster SET system_identifier = system_identifier + 1")
    assert opened.claim().verdict is ClaimVerdict.SUSPENDED
    assert opened.claim("customer-2").verdict is ClaimVerdict.SUSPENDED
    assert opened.resume().verdict is ClaimVerdict.SUSPENDED
    opened.execute("DELETE FROM chargeonce.cluster")
    try:
        assert opened.claim("customer-2").verdict is ClaimVerdict.SUSPENDED
    finally:
        opened.execute(
            """
            INSERT INTO chargeonce.cluster (system_identifier, timeline)
            SELECT system_identifier, chargeonce.present_timeline() FROM pg_control_system()
            """
        )


@pytest.mark.parametrize(
    "database_url",
    ["postgresql://billing:hush@127.0.0.1:1/billing", "host=127.0.0.1 port=1 password=hush"],
)
def test_a_refused_connection_is_told_by_its_cause(database_url: str) -> None:
    """Goal: the operator reads what is wrong, in words that hold neither address nor password."""
    store = PostgresStore(database_url, 1)
    with pytest.raises(RecordsUnavailable) as raised:
        store.get_run(PERIOD)
    assert str(raised.value) == "the database is away or too slow (Connection refused)"


@pytest.mark.parametrize(
    "database_url",
    [
        "postgresql://billing:hush@[host/billing",
        "hush",
        "passwort=hush",
        "host=here connect_timeout=hush",
    ],
)
def test_an_address_that_cannot_be_read_is_a_setting_to_mend(database_url: str) -> None:
    """Goal: libpq's own message quotes the address; ours names the setting."""
    with pytest.raises(SettingsError, match="DATABASE_URL") as raised:
        PostgresStore(database_url, 1)
    assert "hush" not in str(raised.value)
