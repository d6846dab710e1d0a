"""What the demo says when the proxy lets too much pass, or too little."""

from dataclasses import replace

import pytest

from local.demo.books import VaultBooks

KEPT = VaultBooks(
    cap_cents=1000,
    asked_cents=2000,
    charged_cents=990,
    largest_cents=20,
    refused_by_cap=10,
    charges_before_revocation=12,
    charges_after_revocation=0,
    refused_after_revocation=6,
)


def test_nothing_is_broken() -> None:
    assert KEPT.promises_broken == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (replace(KEPT, charged_cents=1001), "1001 cents passed a key that allowed 1000"),
        (replace(KEPT, charged_cents=980), "refused charges that its key's cap allowed"),
        (replace(KEPT, charges_after_revocation=1), "1 charges passed a revoked key"),
        (replace(KEPT, refused_by_cap=0), "never refused"),
        (replace(KEPT, refused_after_revocation=0), "never refused"),
    ],
)
def test_what_is_broken_is_said(changed: VaultBooks, sentence: str) -> None:
    (broken,) = changed.promises_broken
    assert sentence in broken
