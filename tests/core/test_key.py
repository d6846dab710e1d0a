"""The idempotency key: what others who speak to the same account may rely on."""

import hashlib

from shared.key import idempotency_key


def test_the_key_is_made_of_business_fields_alone() -> None:
    """Goal: the formula stays as it is, for every key that was ever used depends on it."""
    joined = "acme:2026-11:usage-billing"
    expected = hashlib.sha256(joined.encode()).hexdigest()[:32]
    assert idempotency_key("acme", "2026-11", "usage-billing") == expected
    assert expected == "3b2c40e8463b4d0329110b786b27c702"


def test_what_differs_in_one_field_has_another_key() -> None:
    keys = {
        idempotency_key(*fields)
        for fields in (
            ("acme", "2026-11", "usage-billing"),
            ("acme2", "2026-11", "usage-billing"),
            ("acme", "2026-12", "usage-billing"),
            ("acme", "2026-11", "other"),
        )
    }
    assert len(keys) == 4
