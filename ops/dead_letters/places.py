"""Opening the places where dead letters lie, as the settings and the command line name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from ops.database import quieten_pool
from ops.dead_letters.judging import Judge
from ops.dead_letters.letters import DeadLetterPlace
from ops.errors import Refused

if TYPE_CHECKING:
    from shared.settings import DeadLetterSettings
    from shared.store.dead_letters import PostgresDeadLetters


class Desk(NamedTuple):
    """What the commands about dead letters work with.

    Args:
        settings: checked.
        database: the records, and our own table of dead letters.
        own_queue: the Service Bus queue that dead letters are forwarded to; None for the sub-queue.
    """

    settings: DeadLetterSettings
    database: PostgresDeadLetters
    own_queue: str | None

    def judge(self, *, adds_up: bool = False) -> Judge:
        """What judges letters; see `Judge`."""
        settings = self.settings
        return Judge(
            self.database, settings.currency, require_run=settings.require_run, adds_up=adds_up
        )

    def open(self, place: str, *, sends: bool) -> AbstractContextManager[DeadLetterPlace]:
        """Connect to a place, one of `DEAD_LETTER_PLACES`.

        Args:
            place: which one.
            sends: whether letters are sent again from there.
        """
        if place == "servicebus":
            from ops.dead_letters.servicebus import ServiceBusDeadLetters, find_entities

            entities = find_entities(self.settings.servicebus, self.own_queue)
            return ServiceBusDeadLetters(self.settings.servicebus, entities)
        if place == "pubsub":
            from ops.dead_letters.pubsub import PubsubDeadLetters

            pubsub = self.settings.pubsub
            topic = pubsub.topic_path if sends else None
            return PubsubDeadLetters(pubsub.dead_letter_subscription_path, topic)
        from ops.dead_letters.parked import ParkedDeadLetters

        return nullcontext(ParkedDeadLetters(self.database, self.settings.currency))


@contextmanager
def open_desk(
    places: list[str] | None, own_queue: str | None, *, sends: bool = False
) -> Iterator[Desk]:
    """Read the settings and open the database.

    Args:
        places: where to look; None for what the settings name.
        own_queue: see `Desk`.
        sends: whether letters are sent again.

    Raises:
        SettingsError: lists every setting that is missing or wrong.
        Refused: the queue is given, but Service Bus is not looked at.
        RecordsUnavailable: the database cannot be reached.
        SchemaMismatch: it needs `chargeonce migrate`.
    """
    from shared.settings import read_dead_letter_settings
    from shared.store.dead_letters import PostgresDeadLetters
    from shared.store.migrations import check_schema

    settings = read_dead_letter_settings(places or (), sends=sends)
    if own_queue is not None and "servicebus" not in settings.places:
        raise Refused("--queue names one of Service Bus, which is not looked at: see --in")
    quieten_pool()
    check_schema(settings.database_url)
    with closing(PostgresDeadLetters(settings.database_url)) as database:
        yield Desk(settings, database, own_queue)
