"""The port to whoever mints vault keys: this project's proxy, or a hosted one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from shared.vault.keys import KeyRequest


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A key that was just made; its text is never shown again."""

    key_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key as the service lists it. Amounts are US cents; None is what the service does not say.

    Args:
        key_id: names it.
        label: which run it is for.
        daily_cap_cents: the most per UTC day.
        total_cap_cents: the most over its life.
        held_cents: what is counted and not yet known to be spent.
        spent_cents: what is known to be spent over its life.
        spent_today_cents: held and spent on this UTC day.
        expires_at: when it stops working.
        created_at: when it was minted.
        revoked_at: when it was revoked; None where it was not.
    """

    key_id: str
    label: str
    daily_cap_cents: int | None
    total_cap_cents: int | None
    held_cents: int | None
    spent_cents: int | None
    spent_today_cents: int | None
    expires_at: datetime | None
    created_at: datetime | None
    revoked_at: datetime | None

    def is_live(self, now: datetime) -> bool:
        """Whether it still works, as far as the service says."""
        is_past = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not is_past


class VaultService(Protocol):
    """Mints, lists and revokes vault keys.

    Every method raises `VaultUnavailable` when there is no clear answer, so that what was asked
    may have been done, and `VaultRefused` when the service refuses.
    """

    def mint(self, request: KeyRequest) -> MintedKey:
        """Make a key. After `VaultUnavailable` there may be one that nobody knows."""

    def list_keys(self, label: str | None) -> Sequence[ListedKey] | None:
        """The keys, newest first, of one label if one is given.

        Returns:
            None when the service cannot list: then nothing is known.
        """

    def revoke(self, key_id: str) -> bool:
        """Stop a key at once; False when the service knows none of that id."""

    def list_calls(self, key_id: str, limit: int) -> Sequence[Mapping[str, Any]] | None:
        """A key's latest calls, as the service describes them; None when it cannot list."""
