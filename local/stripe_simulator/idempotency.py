"""Stripe's table of idempotency keys, one per account and mode."""

from dataclasses import dataclass

from local.stripe_simulator.errors import (
    IDEMPOTENCY_ERROR,
    INVALID_REQUEST,
    StripeError,
    idempotency_key_in_use,
)
from local.stripe_simulator.parameters import FormPairs

KEY_CHARACTERS = 255
RETENTION_SECONDS = 24 * 3600


@dataclass(slots=True)
class KeyRecord:
    """One key: who used it first, and the answer once there is one."""

    path: str
    fingerprint: int
    used_at: float
    request_id: str
    status: int | None = None
    body: bytes = b""


class IdempotencyTable:
    """Remembers the first answer under each key until it is old enough to be pruned."""

    def __init__(self, retention_seconds: float = RETENTION_SECONDS) -> None:
        self._retention_seconds = retention_seconds
        self._records: dict[str, KeyRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    def claim(self, key: str, record: KeyRecord) -> KeyRecord | None:
        """Reserve the key for a request that is about to run.

        Args:
            key: The `Idempotency-Key` header.
            record: Describes the request; kept while the key lives.

        Returns:
            None when the key is new and now reserved, else the finished record to replay.

        Raises:
            StripeError: The key is too long, belongs to another request, or is still in use.
        """
        if len(key) > KEY_CHARACTERS:
            raise StripeError(
                400,
                INVALID_REQUEST,
                f"Idempotency keys can be at most {KEY_CHARACTERS} characters long.",
                stored=False,
            )
        self._prune(record.used_at)
        known = self._records.get(key)
        if known is None:
            self._records[key] = record
            return None
        _check_same_request(key, known, record)
        if known.status is None:
            raise idempotency_key_in_use(key)
        return known

    def store(self, key: str, status: int, body: bytes) -> None:
        """Keep the answer of the request that claimed the key."""
        record = self._records[key]
        record.status = status
        record.body = body

    def release(self, key: str) -> None:
        """Forget a key whose request left nothing to replay."""
        del self._records[key]

    def _prune(self, now: float) -> None:
        # Keys are in the order of their first use, so the walk ends at the first young one.
        expired = []
        for key, record in self._records.items():
            if now - record.used_at < self._retention_seconds:
                break
            if record.status is not None:
                expired.append(key)
        for key in expired:
            del self._records[key]


def fingerprint(pairs: FormPairs) -> int:
    """Return a number that equal parameters share, in whatever order they come.

    It means nothing outside of this process.
    """
    return hash(frozenset(pairs))


def _check_same_request(key: str, known: KeyRecord, record: KeyRecord) -> None:
    if known.path != record.path:
        raise StripeError(
            400,
            IDEMPOTENCY_ERROR,
            "Keys for idempotent requests can only be used for the same endpoint they were first "
            f"used for ('{record.path}' vs '{known.path}'). Try using a key other than '{key}' if "
            "you meant to execute a different request.",
            stored=False,
        )
    if known.fingerprint != record.fingerprint:
        raise StripeError(
            400,
            IDEMPOTENCY_ERROR,
            "Keys for idempotent requests can only be used with the same parameters they were "
            f"first used with. Try using a key other than '{key}' if you meant to execute a "
            "different request.",
            stored=False,
        )
