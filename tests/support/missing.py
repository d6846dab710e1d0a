"""What becomes of a test that needs something which is not there."""

import os
from typing import NoReturn

import pytest


def skip_outside_ci(reason: str) -> NoReturn:
    """A desk may lack it; in CI a skipped test would go unnoticed, so it fails there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
