"""Both stores do the same: random calls, from a seed, made to each, with equal answers."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import pytest

from shared.errors import RunError
from shared.ports import ClaimRequest, ClaimResult, KeptMessage, ParkedEvent, Run
from shared.record import UNFINISHED, Flow, Record, RecordId, State, Verdict
from tests.support.store import (
    BODY,
    LEASE_SECONDS,
    PERIOD,
    MemoryUnderTest,
    PostgresUnderTest,
    StoreUnderTest,
    claim_request,
    envelope,
    everything_seen,
    timeless,
)

SEEDS = 30
STEPS = 70
# A real clock goes on between two calls, and who came first is due first.
TICK_SECONDS = 0.001
CUSTOMERS = ("ann", "bob", "cid")
PAYMENTS = ("pi_1", "pi_2")

Step = Callable[[StoreUnderTest], object]


@dataclass
class Script:
    """Chooses the next call, from what the calls before it returned.

    Args:
        chance: where every choice comes from.
    """

    chance: random.Random

    def __post_init__(self) -> None:
        self.requests: list[ClaimRequest] = []
        self.holders: list[Record] = []

    def next_step(self) -> Step:
        """A call that may be made to any store."""
        steps = [
            self._claim,
            self._claim,
            self._claim,
            self._finish,
            self._finish,
            self._release,
            self._resume,
            self._store_payment,
            self._store_verdict,
            self._send_claim_again,
            self._pass_time,
            self._change_run,
            self._intervene,
            self._reconcile,
            self._keep,
        ]
        return self.chance.choice(steps)()

    def note(self, result: object) -> None:
        """Remember who was given a lease; all of them may act later, in time or not."""
        if isinstance(result, ClaimResult) and result.record is not None:
            self.holders.append(result.record)

    def _holder(self) -> Record | None:
        recent = self.holders[-6:]
        return self.chance.choice(recent) if recent else None

    def _claim(self) -> Step:
        chance = self.chance
        request = claim_request(
            chance.choice(CUSTOMERS),
            amount_cents=chance.choice([5000] * 9 + [5001]),
            attempt=chance.choice([1, 1, 1, 2, 3]),
            flow=chance.choice(list(Flow)),
            payment_method_id=chance.choice([None, "pm_1"]),
            require_run=chance.random() < 0.8,
            token=str(UUID(int=chance.getrandbits(128), version=4)),
            envelope=envelope(f"message-{chance.randrange(4)}", chance.choice([None, 1, 2])),
        )
        self.requests.append(request)
        return lambda stores: stores.store.claim(request)

    def _send_claim_again(self) -> Step:
        if not self.requests:
            return self._claim()
        request = self.chance.choice(self.requests[-3:])
        return lambda stores: stores.store.claim(request)

    def _resume(self) -> Step:
        customer_id = self.chance.choice(CUSTOMERS)
        token = str(UUID(int=self.chance.getrandbits(128), version=4))
        return lambda stores: stores.resume(customer_id, token)

    def _finish(self) -> Step:
        record = self._holder()
        if record is None:
            return self._claim()
        state = self.chance.choice(
            [State.CHARGED, State.DECLINED, State.REJECTED, State.PARKED, State.PROCESSING]
        )
        payment_id = self.chance.choice(PAYMENTS)
        parked = self.chance.choice([None, ParkedEvent("Rejected", "why", BODY)])
        return lambda stores: stores.finish(record, state, payment_id, "code", parked)

    def _release(self) -> Step:
        record = self._holder()
        if record is None:
            return self._claim()
        doubt = self.chance.random() < 0.5
        due_in_seconds = self.chance.choice([None, 60.0, 60.0, 3600.0])
        return lambda stores: stores.release(record, doubt=doubt, due_in_seconds=due_in_seconds)

    def _store_payment(self) -> Step:
        record = self._holder()
        if record is None:
            return self._claim()
        payment_id = self.chance.choice(PAYMENTS)
        return lambda stores: stores.store.store_payment(record.lease, payment_id)

    def _store_verdict(self) -> Step:
        record = self._holder()
        if record is None:
            return self._claim()
        verdict = Verdict(self.chance.choice([State.DECLINED, State.PARKED]), "code", "message")
        return lambda stores: stores.store.store_verdict(record.lease, verdict)

    def _keep(self) -> Step:
        customer_id = self.chance.choice(CUSTOMERS)
        message_id = f"message-{self.chance.randrange(3)}"
        return lambda stores: stores.keep(customer_id, message_id)

    def _reconcile(self) -> Step:
        if self.chance.random() < 0.5:
            return lambda stores: stores.store.take_due(LEASE_SECONDS)

        def deliver(stores: StoreUnderTest) -> KeptMessage | None:
            kept = stores.take_kept()
            if drops and kept is not None:
                stores.store.drop_kept(kept.number)
            return kept

        drops = self.chance.random() < 0.3
        return deliver

    def _pass_time(self) -> Step:
        seconds = self.chance.choice([90.0, 400.0, 8000.0])
        return lambda stores: stores.pass_time(seconds)

    def _change_run(self) -> Step:
        chance = self.chance
        currency = chance.choice(["usd"] * 5 + ["eur"])
        cap_cents = chance.choice([5000, 10_000, 15_000, 20_000])
        return chance.choice(
            [
                lambda stores: stores.store.open_run(PERIOD, currency, 10_000, cap_cents),
                lambda stores: stores.store.open_run(PERIOD, currency, 10_000, cap_cents),
                lambda stores: _or_error(lambda: stores.store.close_run(PERIOD, "by hand")),
                lambda stores: _or_error(lambda: stores.store.raise_cap(PERIOD, cap_cents)),
            ]
        )

    def _intervene(self) -> Step:
        record_id = RecordId(self.chance.choice(CUSTOMERS), PERIOD)
        loses = self.chance.random() < 0.4

        def intervene(stores: StoreUnderTest) -> None:
            record = stores.store.get_record(record_id)
            if record is None:
                return
            if loses:
                stores.lose(record_id)
            elif record.state in UNFINISHED:
                stores.cancel(record_id)

        return intervene


def _or_error(call: Callable[[], Run]) -> Run | str:
    try:
        return call()
    except RunError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_both_stores_give_the_same_answers(seed: int, postgres: PostgresUnderTest) -> None:
    """Goal: whoever tests or simulates in memory tests what the database does.

    Method: the same random calls to both, among them stale holders, repeated sends, lost records
    and lapsed leases; every answer, and in the end everything that can be seen, is equal.
    """
    script = Script(random.Random(seed))
    memory = MemoryUnderTest()
    for number in range(STEPS):
        step = script.next_step()
        memory.pass_time(TICK_SECONDS)
        expected, found = step(memory), step(postgres)
        assert timeless(found) == timeless(expected), f"step {number}"
        script.note(found)
    assert everything_seen(postgres, CUSTOMERS) == everything_seen(memory, CUSTOMERS)
