"""The error tree.

ChargeonceError
├── SettingsError          a setting is missing or wrong: the process must not start
├── InvalidEvent           a message that can never become a charge
├── RecordsUnavailable     the database did not answer: the statement may or may not have committed
│   └── PoolExhausted      no connection became free in time: nothing was sent
├── StripeUnavailable      Stripe could not be read; outside of charging, where doubt is an outcome
├── VaultError             the mint API of a spend-cap proxy did not do what it was asked
│   ├── VaultUnavailable   it gave no clear answer: it may have done it
│   └── VaultRefused       it refused: it has done nothing
├── SchemaMismatch         the database's schema is not the one that this code was written for
├── SettlementFailed       the broker did not accept a settlement
└── RunError               a run cannot be opened, closed or changed as asked
"""

from __future__ import annotations


class ChargeonceError(Exception):
    """Root of everything that Chargeonce raises on purpose."""


class SettingsError(ChargeonceError):
    """One or more settings are missing or wrong.

    Args:
        problems: one sentence per problem. Each names the setting and never quotes its value,
            because a value may be a secret.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("settings need attention:\n" + "\n".join(f"  - {p}" for p in problems))


class InvalidEvent(ChargeonceError):
    """A message body that is not a usage event.

    Args:
        field: the field at fault, or `body` when the body as a whole is.
        problem: what is wrong with it, in words that an operator can act on.
    """

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem}")


class RecordsUnavailable(ChargeonceError):
    """The database did not answer; what was sent may or may not have been committed."""


class PoolExhausted(RecordsUnavailable):
    """No database connection became free in time; nothing was sent."""


class StripeUnavailable(ChargeonceError):
    """Stripe could not be read, or refused to be.

    Args:
        problem: what was asked, and what came instead of the answer.
        status: the HTTP status of the refusal; 0 where there was none.
    """

    def __init__(self, problem: str, *, status: int = 0) -> None:
        self.status = status
        super().__init__(problem)


class VaultError(ChargeonceError):
    """The mint API of a spend-cap proxy did not do what it was asked."""


class VaultUnavailable(VaultError):
    """The mint API gave no clear answer; it may or may not have done what it was asked."""


class VaultRefused(VaultError):
    """The mint API refused, and has done nothing.

    Args:
        problem: what it said, shortened and free of secrets.
        status: HTTP status.
        parameter: the field that was wrong; None where it does not say.
    """

    def __init__(self, problem: str, status: int, parameter: str | None = None) -> None:
        self.status = status
        self.parameter = parameter
        super().__init__(problem)


class SchemaMismatch(ChargeonceError):
    """The database's schema is older or newer than this code."""


class SettlementFailed(ChargeonceError):
    """The broker did not accept a settlement; the message will be delivered again.

    Args:
        problem: what the broker said, shortened.
        lock_lost: True when the lock or lease is known to have run out.
    """

    def __init__(self, problem: str, *, lock_lost: bool = False) -> None:
        self.lock_lost = lock_lost
        super().__init__(problem)


class RunError(ChargeonceError):
    """A billing run cannot be opened, closed or changed as asked."""
