"""Identifiers in Stripe's shapes, the same for the same seed and order of requests."""

import random

_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

# Every byte stands for a letter, so an id costs one draw instead of one for each character.
_LETTER_OF_BYTE = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))


class IdentifierSource:
    """Makes identifiers from a seed. Two sources with one seed give the same sequence."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"identifiers:{seed}")

    def object_id(self, prefix: str) -> str:
        """Return a new object id such as `pi_...` for the prefix `pi`."""
        return f"{prefix}_{self._characters(24)}"

    def request_id(self) -> str:
        """Return a new `req_...` id."""
        return f"req_{self._characters(14)}"

    def client_secret(self, object_id: str) -> str:
        """Return a client secret for the object, which must never reach a log."""
        return f"{object_id}_secret_{self._characters(25)}"

    def _characters(self, count: int) -> str:
        return self._random.randbytes(count).translate(_LETTER_OF_BYTE).decode("ascii")
