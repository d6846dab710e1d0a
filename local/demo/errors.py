"""What can go wrong with the demo itself."""

from shared.errors import ChargeonceError


class DemoFailed(ChargeonceError):
    """The demo could not be played; this says nothing about the promises."""
