"""Names of topics and subscriptions: `projects/PROJECT/topics/TOPIC`."""

import re
from typing import Final

from local.pubsub_emulator.errors import InvalidArgument

# What a subscription says of its topic after that was deleted.
DELETED_TOPIC: Final = "_deleted-topic_"

_PROJECT: Final = r"projects/[^/]+"
_IDENTIFIER: Final = r"(?!goog)[A-Za-z][A-Za-z0-9._~+%-]{2,254}"
_PATTERNS: Final = {
    "topics": re.compile(f"{_PROJECT}/topics/{_IDENTIFIER}"),
    "subscriptions": re.compile(f"{_PROJECT}/subscriptions/{_IDENTIFIER}"),
}
_PROJECT_PATTERN: Final = re.compile(_PROJECT)


def check_topic(name: str) -> str:
    """Return the name if it can be a topic's.

    Raises:
        InvalidArgument: It cannot.
    """
    return _check("topics", name)


def check_subscription(name: str) -> str:
    """Return the name if it can be a subscription's.

    Raises:
        InvalidArgument: It cannot.
    """
    return _check("subscriptions", name)


def check_project(name: str) -> str:
    """Return the name if it reads `projects/PROJECT`.

    Raises:
        InvalidArgument: It does not.
    """
    if not _PROJECT_PATTERN.fullmatch(name):
        raise InvalidArgument(f"Invalid project name: (name={name})")
    return name


def topic_name(project: str, topic: str) -> str:
    """Return the full name of a topic that may be given in short."""
    return _full_name(project, "topics", topic)


def subscription_name(project: str, subscription: str) -> str:
    """Return the full name of a subscription that may be given in short."""
    return _full_name(project, "subscriptions", subscription)


def project_of(name: str) -> str:
    """Return the project id in a full name."""
    return name.split("/")[1]


def identifier_of(name: str) -> str:
    """Return the last part of a full name."""
    return name.rsplit("/", 1)[-1]


def _full_name(project: str, collection: str, name: str) -> str:
    return name if "/" in name else f"projects/{project}/{collection}/{name}"


def _check(collection: str, name: str) -> str:
    if not _PATTERNS[collection].fullmatch(name):
        raise InvalidArgument(f"Invalid [{collection}] name: (name={name})")
    return name
