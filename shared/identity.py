"""One database serves one Stripe account and mode: checked before the first charge."""

from __future__ import annotations

import threading

from shared.budget import Budget
from shared.conclusion import Concluded, Conclusion, conclude
from shared.ports import Identity, Records
from shared.stripe_answers import AnswerKind
from shared.stripe_calls import StripeCalls
from shared.stripe_requests import read_account


class StripeIdentity:
    """Holds this process's key against the account and mode that the records belong to.

    Args:
        records: where the identity is stored at first use.
        calls: the way to Stripe.
        key_livemode: the mode that the key's prefix tells; None for a vault key, which tells none.
    """

    def __init__(self, records: Records, calls: StripeCalls, key_livemode: bool | None) -> None:
        self._records = records
        self._calls = calls
        self._key_livemode = key_livemode
        self._known: Identity | None = None
        self._lock = threading.Lock()

    def refuse(self, budget: Budget, vault_key: str | None) -> Concluded | None:
        """Check the account once per process; None means that the key may be used.

        A key that may not read its account (a narrow restricted key, a vault key) is held to its
        mode alone. A mismatch is found anew by every delivery, so that mending the key is enough.
        """
        if self._known is not None:
            return None
        answer = self._calls.send(read_account(), budget, vault_key).answer
        if answer.kind not in (AnswerKind.OK, AnswerKind.UNAUTHORIZED, AnswerKind.BLOCKED_BY_CAP):
            return conclude(Conclusion.TRANSIENT, answer)
        if answer.status == 401:
            return conclude(Conclusion.TRANSIENT, answer, misconfigured=True)
        account_id = answer.content.get("id") if answer.kind is AnswerKind.OK else None
        stored = self._records.identify(account_id, self._key_livemode)
        if account_id is not None and stored.account_id != account_id:
            return _mismatch(
                Conclusion.TRANSIENT, "wrong_account", "the key belongs to another Stripe account"
            )
        if self._key_livemode is not None and stored.livemode != self._key_livemode:
            return _mismatch(
                Conclusion.TRANSIENT, "wrong_livemode", "the key's mode is not that of the records"
            )
        with self._lock:
            self._known = stored
        return None

    def refuse_answer(self, livemode: object) -> Concluded | None:
        """Check the mode that an answer carries; None means that it is the records' own."""
        if not isinstance(livemode, bool):
            return None
        known = self._known
        if known is None or known.livemode is None:
            known = self._records.identify(None, livemode)
            with self._lock:
                self._known = known
        if known.livemode != livemode:
            return _mismatch(
                Conclusion.IN_DOUBT, "wrong_livemode", "Stripe answered from the other mode"
            )
        return None


def _mismatch(conclusion: Conclusion, code: str, problem: str) -> Concluded:
    message = f"{problem}; one database serves one Stripe account and mode"
    return Concluded(conclusion, code=code, message=message, misconfigured=True)
