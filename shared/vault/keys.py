"""Vault keys: made once, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

TOKEN_PREFIX = "vault_key_"  # noqa: S105 (the public part)
ID_BYTES = 8
SECRET_BYTES = 32

_TOKEN = re.compile(rf"{TOKEN_PREFIX}([0-9a-f]{{16}})_([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True, slots=True)
class Token:
    """A vault key as its holder presents it."""

    key_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The whole key."""
        return f"{TOKEN_PREFIX}{self.key_id}_{self.secret}"

    @property
    def secret_hash(self) -> bytes:
        """What is stored of it. The secret has 256 random bits: a plain hash cannot be reversed."""
        return hashlib.sha256(self.secret.encode()).digest()


@dataclass(frozen=True, slots=True)
class VaultKey:
    """A vault key as the proxy knows it. Amounts are US cents."""

    key_id: str
    secret_hash: bytes = field(repr=False)
    label: str
    allowed_endpoints: tuple[str, ...]
    daily_cap_cents: int
    total_cap_cents: int | None
    expires_at: datetime
    revoked_at: datetime | None
    created_at: datetime
    held_cents: int
    spent_cents: int
    day_cents: int

    def is_held_by(self, token: Token) -> bool:
        """Whether the token is this key's; takes the same time whatever is wrong with it."""
        return hmac.compare_digest(self.secret_hash, token.secret_hash)


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """What a new key may do.

    Args:
        label: which run it is for.
        allowed_endpoints: paths, with `*` for one segment.
        daily_cap_cents: the most per UTC day.
        total_cap_cents: the most over the key's whole life; None for no limit but the daily one.
        expires_at: when it stops working.
    """

    label: str
    allowed_endpoints: Sequence[str]
    daily_cap_cents: int
    total_cap_cents: int | None
    expires_at: datetime


def new_token() -> Token:
    """A fresh key."""
    return Token(secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES))


def read_token(text: str) -> Token | None:
    """The key in a text; None when it has not the form of one."""
    found = _TOKEN.fullmatch(text)
    return Token(found[1], found[2]) if found else None
