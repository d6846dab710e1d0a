"""Holds whose outcome nobody heard: Stripe is asked, and only its answer ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from shared.stripe_lists import StripeLists
from shared.vault.judging import judge_charge, judge_intent
from shared.vault.ports import Effect, Hold, Proof, VaultRecords

MOST_HOLDS = 100
PAUSE_SECONDS = 600.0
MARGIN_SECONDS = 3600
# A request that Stripe has not executed a day after it was sent is gone: so is its idempotency key.
GONE_AFTER_SECONDS = 25 * 3600.0
MARK_KEY = "vault_request"


def resolve_holds(
    records: VaultRecords, lists: StripeLists, is_time_up: Callable[[], bool] = lambda: False
) -> int:
    """Ask Stripe about holds that are due, and write what it proves.

    Args:
        records: the proxy's records.
        lists: the way to Stripe.
        is_time_up: asked before each hold; those that are left are due again after a while.

    Returns:
        How many were looked at.

    Raises:
        RecordsUnavailable: the database is away.
        StripeUnavailable: Stripe is; what was written before stands.
    """
    looked_at = 0
    for hold in records.take_due_holds(MOST_HOLDS, PAUSE_SECONDS):
        if is_time_up():
            break
        records.conclude(hold, _look(lists, hold), GONE_AFTER_SECONDS)
        looked_at += 1
    return looked_at


def _look(lists: StripeLists, hold: Hold) -> Proof:
    if hold.payment_id is None:
        return _find(lists, hold)
    if hold.payment_id.startswith("pi_"):
        intent = lists.get(f"/v1/payment_intents/{hold.payment_id}")
        return judge_intent(intent) if intent else Proof(Effect.UNKNOWN)
    charge = lists.get(f"/v1/charges/{hold.payment_id}")
    return judge_charge(charge) if charge else Proof(Effect.UNKNOWN)


def _find(lists: StripeLists, hold: Hold) -> Proof:
    """Look for what a request made, by its mark. Its absence counts as a failure: not at once."""
    created = {"created[gte]": str(int(hold.opened_at.timestamp()) - MARGIN_SECONDS)}
    intent = _find_marked(lists.items("/v1/payment_intents", created), hold.request_mark)
    if intent is not None:
        return judge_intent(intent)
    charge = _find_marked(lists.items("/v1/charges", created), hold.request_mark)
    return judge_charge(charge) if charge is not None else Proof(Effect.FAILED)


def _find_marked(
    newest_first: Iterator[Mapping[str, Any]], mark: str | None
) -> Mapping[str, Any] | None:
    """The oldest: a request that was sent again after a day has made a newer one of its own."""
    found = None
    for item in newest_first:
        metadata = item.get("metadata")
        if isinstance(metadata, Mapping) and metadata.get(MARK_KEY) == mark:
            found = item
    return found
