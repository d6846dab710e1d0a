"""Which places are looked at, and by which readers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ops.doctor.examination import Examination, Unread, examine
from ops.doctor.facts import Facts
from ops.doctor.readers.azure_templates import read_azure_templates
from ops.doctor.readers.database import add_database
from ops.doctor.readers.environment import read_defaults, read_environment
from ops.doctor.readers.google_templates import read_google_templates
from ops.doctor.readers.local_settings import read_local_settings
from ops.doctor.readers.pubsub import add_subscription
from ops.doctor.readers.run_keys import add_run_keys
from ops.doctor.readers.servicebus import add_queue
from ops.doctor.readers.stripe import add_stripe

# Where one of them is set, the environment is meant to be a deployment's.
TELLING = ("DATABASE_URL", "STRIPE_API_KEY", "BILLING_QUEUE", "PUBSUB_TOPIC")


def examine_templates(root: Path, instances: int | None = None) -> Examination:
    """Look at what would be deployed.

    Args:
        root: where infra/ and host.json are.
        instances: how many of the environment's there may be.

    Raises:
        PackageMissing: a parser is not installed.
    """
    places, unread = list[Facts](), list[Unread]()
    for facts in _templates(root, instances):
        try:
            places.extend(facts)
        except FileNotFoundError as error:
            unread.append(Unread(str(error.filename), "there is no such file: use --root"))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            unread.append(Unread("a template", f"it is built in another way ({error!r})"))
    return examine(places, unread)


def _templates(root: Path, instances: int | None) -> Iterator[Iterator[Facts]]:
    yield iter([read_defaults()])
    if any(name in os.environ for name in TELLING):
        yield iter([read_environment("the environment", instances=instances)])
    yield read_local_settings(root)
    yield read_azure_templates(root)
    yield read_google_templates(root)


def examine_deployment(
    root: Path, instances: int | None = None, subscription: str | None = None
) -> Examination:
    """Look at what runs, with the settings of this process.

    Args:
        root: where host.json is.
        instances: how many there may be.
        subscription: of Pub/Sub, with its full name, where the settings do not tell.
    """
    facts = read_environment("the deployment", instances=instances)
    settings = facts.settings
    assert settings is not None, "settings were just read"
    unread: list[Unread] = []
    if settings.database_url:
        facts = add_run_keys(add_database(facts))
    facts, more = add_stripe(facts)
    unread.extend(more)
    facts, more = add_queue(facts)
    unread.extend(more)
    facts, more = add_subscription(facts, subscription=subscription)
    unread.extend(more)
    if settings.servicebus.host:
        facts = replace(facts, host=json.loads((root / "host.json").read_text("utf-8")))
    return examine([facts], unread)
