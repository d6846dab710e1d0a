"""What the broker refuses, and why.

BrokerError
├── InvalidArgument        the request makes no sense
│   └── InvalidAckIds      exactly-once: these ack ids settle nothing any more
├── NotFound               no such topic or subscription
├── AlreadyExists          the name is taken
├── FailedPrecondition     right request, wrong moment or wrong kind of subscription
├── ResourceExhausted      a bound of the emulator is reached
├── Unimplemented          Pub/Sub can do this, the emulator cannot
├── Unavailable            the emulator is stopping, or a stream was cut
└── Refused                a fault that somebody injected
"""

from collections.abc import Sequence


class BrokerError(Exception):
    """The broker refuses. `code` is the name of the gRPC status."""

    code = "UNKNOWN"


class InvalidArgument(BrokerError):
    """The request makes no sense."""

    code = "INVALID_ARGUMENT"


class InvalidAckIds(InvalidArgument):
    """Some of the ack ids settle nothing any more; the others were settled."""

    def __init__(self, ack_ids: Sequence[str]) -> None:
        super().__init__(
            "Some acknowledgement ids in the request were invalid. This could be because the "
            "acknowledgement ids have expired or the acknowledgement ids were malformed."
        )
        self.ack_ids = tuple(ack_ids)


class OutOfRange(BrokerError):
    """A number is beyond its bounds."""

    code = "OUT_OF_RANGE"


class NotFound(BrokerError):
    """There is no such topic or subscription."""

    code = "NOT_FOUND"


class AlreadyExists(BrokerError):
    """The name is taken."""

    code = "ALREADY_EXISTS"


class FailedPrecondition(BrokerError):
    """The request does not fit what the resource is now."""

    code = "FAILED_PRECONDITION"


class ResourceExhausted(BrokerError):
    """A bound of the emulator is reached."""

    code = "RESOURCE_EXHAUSTED"


class Unimplemented(BrokerError):
    """Pub/Sub can do this, the emulator cannot."""

    code = "UNIMPLEMENTED"


class Unavailable(BrokerError):
    """The emulator is stopping, or a stream was cut."""

    code = "UNAVAILABLE"


class Refused(BrokerError):
    """A fault that somebody injected."""

    def __init__(self, code: str) -> None:
        super().__init__(f"An injected fault refuses this with {code}.")
        self.code = code
