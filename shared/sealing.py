"""Encrypting vault keys for the database. Imported lazily: only behind a spend-cap proxy."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet


class FernetSeal:
    """Implements the port `Seal` (https://cryptography.io/en/latest/fernet/). Safe for threads.

    Args:
        encryption_keys: the first encrypts, each of them decrypts: so that they can be rotated.
    """

    def __init__(self, encryption_keys: Sequence[str]) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in encryption_keys])

    def close(self, text: str) -> str:
        """See `Seal.close`."""
        return self._fernet.encrypt(text.encode()).decode()

    def open(self, sealed_text: str) -> str | None:
        """See `Seal.open`."""
        try:
            return self._fernet.decrypt(sealed_text.encode()).decode()
        except InvalidToken:
            return None
