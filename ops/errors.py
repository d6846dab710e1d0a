"""What the command line raises beside the errors of `shared`."""

from __future__ import annotations

from shared.errors import ChargeonceError


class NotFound(ChargeonceError):
    """What was asked for does not exist."""


class Refused(ChargeonceError):
    """It exists, but not as asked, and this command does not change that."""


class PackageMissing(ChargeonceError):
    """A package that only people need is not installed."""


class PlaceUnavailable(ChargeonceError):
    """A broker cannot be reached, or refuses what it was asked for."""
