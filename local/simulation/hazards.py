"""What may go wrong and how often, and every other choice that is made while a simulation runs."""

import math
import random
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import TypeVar

Choice = TypeVar("Choice")

SECONDS_PER_HOUR = 3600.0
SECONDS_PER_DAY = 24 * SECONDS_PER_HOUR


class Hazard(StrEnum):
    """One way for the world to go wrong."""

    # The database.
    DATABASE_LOST_BEFORE_COMMIT = "database_lost_before_commit"
    DATABASE_LOST_AFTER_COMMIT = "database_lost_after_commit"
    STATEMENT_SENT_TWICE = "statement_sent_twice"
    # Requests to Stripe.
    REFUSED = "refused"
    REQUEST_LOST = "request_lost"
    REQUEST_LATE = "request_late"
    ANSWER_LOST = "answer_lost"
    ANSWER_TRUNCATED = "answer_truncated"
    SLOW_TO_ACT = "slow_to_act"
    SLOW_TO_ANSWER = "slow_to_answer"
    STORED_500_ACTED = "stored_500_acted"
    STORED_500_IDLE = "stored_500_idle"
    UNSTORED_500_ACTED = "unstored_500_acted"
    UNSTORED_500_IDLE = "unstored_500_idle"
    HTML_502_ACTED = "html_502_acted"
    HTML_502_IDLE = "html_502_idle"
    NOT_JSON = "not_json"
    RATE_LIMIT = "rate_limit"
    KEY_IN_USE = "key_in_use"
    LOCK_TIMEOUT = "lock_timeout"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    SPEND_CAP = "spend_cap"
    # What the bank says.
    DECLINE = "decline"
    DUPLICATE_TRANSACTION = "duplicate_transaction"
    AUTHENTICATION = "authentication"
    PROCESSING = "processing"
    # The broker.
    SETTLEMENT_LOST = "settlement_lost"
    SETTLEMENT_ANSWER_LOST = "settlement_answer_lost"
    # The process.
    CRASH = "crash"
    FREEZE = "freeze"


DATABASE_HAZARDS = (
    Hazard.DATABASE_LOST_BEFORE_COMMIT,
    Hazard.DATABASE_LOST_AFTER_COMMIT,
    Hazard.STATEMENT_SENT_TWICE,
)
TRAVEL_HAZARDS = (
    Hazard.REFUSED,
    Hazard.REQUEST_LOST,
    Hazard.REQUEST_LATE,
    Hazard.ANSWER_LOST,
    Hazard.ANSWER_TRUNCATED,
    Hazard.SLOW_TO_ACT,
    Hazard.SLOW_TO_ANSWER,
)
ANSWER_HAZARDS = (
    Hazard.STORED_500_ACTED,
    Hazard.STORED_500_IDLE,
    Hazard.UNSTORED_500_ACTED,
    Hazard.UNSTORED_500_IDLE,
    Hazard.HTML_502_ACTED,
    Hazard.HTML_502_IDLE,
    Hazard.NOT_JSON,
    Hazard.RATE_LIMIT,
    Hazard.KEY_IN_USE,
    Hazard.LOCK_TIMEOUT,
    Hazard.UNAUTHORIZED,
    Hazard.FORBIDDEN,
    Hazard.SPEND_CAP,
    Hazard.DECLINE,
    Hazard.DUPLICATE_TRANSACTION,
    Hazard.AUTHENTICATION,
    Hazard.PROCESSING,
)
SETTLEMENT_HAZARDS = (Hazard.SETTLEMENT_LOST, Hazard.SETTLEMENT_ANSWER_LOST)

HIGHEST_RATES: Mapping[Hazard, float] = {
    **dict.fromkeys(DATABASE_HAZARDS, 0.08),
    **dict.fromkeys(TRAVEL_HAZARDS, 0.15),
    Hazard.REQUEST_LATE: 0.25,
    **dict.fromkeys(ANSWER_HAZARDS, 0.08),
    **dict.fromkeys(SETTLEMENT_HAZARDS, 0.3),
    Hazard.CRASH: 0.02,
    Hazard.FREEZE: 0.03,
}
"""How often a hazard strikes at a crossing where it can, in a seed that has it at its worst."""

SORE_RATE = 0.5
"""How often a hazard strikes at the sore spot of a seed."""


def draw_rates(chance: random.Random) -> Mapping[Hazard, float]:
    """Choose what goes wrong in one seed: a few hazards at a time find more than all at once."""
    if chance.random() < 0.15:
        pair = chance.sample(list(Hazard), 2)
        return {hazard: min(4 * HIGHEST_RATES[hazard], 0.4) for hazard in pair}
    share = chance.choice((0.2, 0.4, 0.8))
    return {
        hazard: highest * chance.choice((1.0, 0.3, 0.1))
        for hazard, highest in HIGHEST_RATES.items()
        if chance.random() < share
    }


class Chance:
    """Every choice that is made while a simulation runs, from its seed.

    Args:
        seed: decides all of them.
        rates: how often each hazard strikes where it can; a missing one never does.
        sore_spot: a hazard and the one place where it strikes far more often; or None.
    """

    def __init__(
        self,
        seed: int,
        rates: Mapping[Hazard, float],
        sore_spot: tuple[Hazard, str] | None = None,
    ) -> None:
        self._random = random.Random(f"chance:{seed}")
        self._rates = rates
        self._sore_spot = sore_spot
        self._thresholds: dict[Sequence[Hazard], Sequence[float]] = {}
        self.is_calm = False

    def strike(self, hazards: Sequence[Hazard]) -> Hazard | None:
        """Choose the hazard of a group that strikes now, or None."""
        if self.is_calm:
            return None
        thresholds = self._thresholds.get(hazards)
        if thresholds is None:
            rates = [self._rates.get(hazard, 0.0) for hazard in hazards]
            thresholds = self._thresholds[hazards] = list(accumulate(rates))
        drawn = self._random.random()
        if drawn >= thresholds[-1]:
            return None
        return next(
            hazard for hazard, most in zip(hazards, thresholds, strict=True) if drawn < most
        )

    def strikes_at(self, hazard: Hazard, place: str) -> bool:
        """Whether this hazard strikes now, at a place in the code under test."""
        if self.is_calm:
            return False
        is_sore = self._sore_spot == (hazard, place)
        rate = SORE_RATE if is_sore else self._rates.get(hazard, 0.0)
        return self._random.random() < rate

    def happens(self, probability: float) -> bool:
        """Whether something of this probability happens; never once it is calm."""
        return not self.is_calm and self._random.random() < probability

    def latency_seconds(self) -> float:
        """How long it takes to get anywhere: usually a moment, at times a minute."""
        drawn = self._random.random()
        if self.is_calm or drawn < 0.9:
            return 0.001 + 0.1 * self._random.random()
        return self.log_uniform(0.1, 60.0)

    def freeze_seconds(self) -> float:
        """How long a frozen process stands still: beyond a lease, at times beyond a day."""
        if self._random.random() < 0.1:
            return self.log_uniform(2 * SECONDS_PER_HOUR, 30 * SECONDS_PER_HOUR)
        return self.log_uniform(30.0, 2 * SECONDS_PER_HOUR)

    def log_uniform(self, least: float, most: float) -> float:
        """A number between the two, as likely in each order of magnitude."""
        return least * math.exp(self._random.random() * math.log(most / least))

    def choose(self, choices: Sequence[Choice]) -> Choice:
        """One of them."""
        return choices[self._random.randrange(len(choices))]
