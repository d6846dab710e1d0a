"""The error tree. Each error carries the AMQP condition that a peer is told.

EmulatorError
├── WireError                  what the peer sent cannot be used
│   ├── DecodeError            bytes that are not an AMQP value
│   ├── ConnectionFailure      ends the connection
│   ├── SessionFailure         ends the session
│   └── LinkFailure            ends the link
└── BrokerError                the broker says no
    ├── EntityNotFound         no such queue, topic or subscription
    ├── NotAllowed             the entity is there, but not for this
    ├── LockLost               the lock ran out, or the message was settled already
    ├── MessageNotFound        no message has that sequence number
    ├── InvalidRequest         a request lacks something
    ├── QuotaExceeded          the queue is full
    ├── ServerBusy             a fault makes it too busy
    ├── TimedOut               a fault makes it too slow
    ├── Refused                a fault makes it refuse a settlement
    └── NotSupported           a feature of Service Bus that this emulator does not have
"""

from http import HTTPStatus
from typing import ClassVar

NOT_FOUND = "amqp:not-found"
NOT_IMPLEMENTED = "amqp:not-implemented"
NOT_ALLOWED = "amqp:not-allowed"
INVALID_FIELD = "amqp:invalid-field"
DECODE_ERROR = "amqp:decode-error"
PRECONDITION_FAILED = "amqp:precondition-failed"
RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
FRAMING_ERROR = "amqp:connection:framing-error"
HANDLE_IN_USE = "amqp:session:handle-in-use"
MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"
DEAD_LETTER = "com.microsoft:dead-letter"
LOCK_LOST = "com.microsoft:message-lock-lost"
MESSAGE_NOT_FOUND = "com.microsoft:message-not-found"
SERVER_BUSY = "com.microsoft:server-busy"
TIMEOUT = "com.microsoft:timeout"
ARGUMENT_ERROR = "com.microsoft:argument-error"


class EmulatorError(Exception):
    """Root of everything that the emulator raises on purpose.

    Args:
        description: What is wrong, for the peer to read.
    """

    condition: str

    def __init__(self, description: str) -> None:
        self.description = description
        super().__init__(description)


class WireError(EmulatorError):
    """What the peer sent cannot be used.

    Args:
        description: What is wrong, for the peer to read.
        condition: The AMQP error condition.
    """

    def __init__(self, description: str, condition: str) -> None:
        self.condition = condition
        super().__init__(description)


class DecodeError(WireError):
    """Bytes that are not an AMQP value, or not the one that belongs there."""

    def __init__(self, description: str) -> None:
        super().__init__(description, DECODE_ERROR)


class ConnectionFailure(WireError):
    """The peer broke the rules in a way that ends the connection."""


class SessionFailure(WireError):
    """The peer broke the rules in a way that ends the session."""


class LinkFailure(WireError):
    """The link cannot go on, or cannot come about."""


class BrokerError(EmulatorError):
    """The broker says no."""

    condition = PRECONDITION_FAILED
    status: ClassVar[HTTPStatus] = HTTPStatus.BAD_REQUEST


class EntityNotFound(BrokerError):
    """There is no such queue, topic or subscription."""

    condition = NOT_FOUND
    status = HTTPStatus.NOT_FOUND


class NotAllowed(BrokerError):
    """The entity is there, but not for this."""

    condition = NOT_ALLOWED


class LockLost(BrokerError):
    """The lock ran out, or the message was settled already."""

    condition = LOCK_LOST
    status = HTTPStatus.GONE


class MessageNotFound(BrokerError):
    """No message has that sequence number."""

    condition = MESSAGE_NOT_FOUND
    status = HTTPStatus.NOT_FOUND


class InvalidRequest(BrokerError):
    """The request lacks something or has something of the wrong type."""

    condition = ARGUMENT_ERROR


class QuotaExceeded(BrokerError):
    """The queue is full."""

    condition = RESOURCE_LIMIT_EXCEEDED
    status = HTTPStatus.FORBIDDEN


class NotSupported(BrokerError):
    """A feature of Service Bus that this emulator does not have."""

    condition = NOT_IMPLEMENTED
    status = HTTPStatus.NOT_IMPLEMENTED


class ServerBusy(BrokerError):
    """A fault makes the broker too busy to renew a lock."""

    condition = SERVER_BUSY
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("The service is busy. Please retry later.")


class TimedOut(BrokerError):
    """A fault makes the broker too slow for a management request."""

    condition = TIMEOUT
    status = HTTPStatus.REQUEST_TIMEOUT

    def __init__(self) -> None:
        super().__init__("The operation did not complete within the allotted time.")


class Refused(BrokerError):
    """A fault makes the broker say no.

    Args:
        condition: The AMQP error condition that the peer is told.
    """

    def __init__(self, condition: str) -> None:
        self.condition = condition
        super().__init__("a fault on demand says so")
