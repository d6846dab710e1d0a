"""A queue that detects duplicates must not swallow what is sent again under its own id."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ops.dead_letters.clearing import Choice
from ops.dead_letters.duplicate_detection import swallow_window
from ops.dead_letters.judging import Judged, Selection
from ops.dead_letters.letters import DeadLetter
from ops.dead_letters.resubmitting import Resubmission, Wishes
from ops.dead_letters.servicebus import Entities, ServiceBusDeadLetters
from shared.clock import SystemClock
from shared.event import parse_event
from shared.forecast import Basis, Forecast
from shared.outcome import Outcome
from shared.settings import ServiceBusSettings, read_dead_letter_settings
from tests.support.malformed_bodies import event_body
from tests.support.servicebus_management import HOST, make_certificate, serving_entries

ENTRY = """<?xml version="1.0"?><entry xmlns="http://www.w3.org/2005/Atom"><title>{title}</title>
<content type="application/xml"><{kind}Description
xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">
<RequiresDuplicateDetection>{detects}</RequiresDuplicateDetection>
<DuplicateDetectionHistoryTimeWindow>PT20M</DuplicateDetectionHistoryTimeWindow>
</{kind}Description></content></entry>"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine with its key, in one file."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@contextmanager
def management_api(
    certificate: Path, kind: str, *, detects: bool, status: int = 200
) -> Iterator[int]:
    """Service Bus' management API, as far as one entity's duplicate detection goes; its port."""
    entry = ENTRY.format(title="usage", kind=kind, detects=str(detects).lower())
    with serving_entries(certificate, lambda _: entry, status) as port:
        yield port


def settings(port: int, **source: str) -> ServiceBusSettings:
    """The way to it."""
    connection_string = f"Endpoint=sb://{HOST}:{port};SharedAccessKeyName=x;SharedAccessKey=y;"
    environment = {"DATABASE_URL": "postgresql://", "ServiceBus": connection_string, **source}
    return read_dead_letter_settings(["servicebus"], environment=environment).servicebus


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("Queue", {"BILLING_QUEUE": "usage"}),
        ("Topic", {"BILLING_TOPIC": "usage", "BILLING_SUBSCRIPTION": "billing"}),
    ],
)
def test_the_window_is_read_where_rights_allow(
    kind: str, source: dict[str, str], certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: by the real SDK; none where nothing is detected, unknown where nobody says."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with management_api(certificate, kind, detects=True) as port:
        assert swallow_window(settings(port, **source)) == timedelta(minutes=20)
    with management_api(certificate, kind, detects=False) as port:
        assert swallow_window(settings(port, **source)) == timedelta()
    with management_api(certificate, kind, detects=True, status=401) as port:
        assert swallow_window(settings(port, **source)) is None
    assert swallow_window(settings(port, **source)) is None


@pytest.mark.parametrize(
    ("age", "window", "fresh_ids", "choice"),
    [
        (timedelta(minutes=19), timedelta(minutes=20), False, Choice.LEAVE_SWALLOWED),
        (timedelta(minutes=21), timedelta(minutes=20), False, Choice.ACT),
        (timedelta(minutes=19), timedelta(minutes=20), True, Choice.ACT),
        (timedelta(minutes=19), timedelta(), False, Choice.ACT),
        (timedelta(minutes=19), None, False, Choice.ACT),
    ],
)
def test_what_would_be_swallowed_is_left(
    age: timedelta, window: timedelta | None, fresh_ids: bool, choice: Choice
) -> None:
    """Goal: sent and then removed, it would be gone."""
    body = event_body()
    letter = DeadLetter("1", "a", body, "CapReached", "", datetime.now(UTC) - age, 1, {})
    expected = Forecast(Outcome.CHARGED, Basis.NEW_CHARGE, "")
    judged = Judged(letter, parse_event(body, "usd"), None, expected)
    wishes = Wishes(Selection(), fresh_ids=fresh_ids, swallow_window=window)
    queue = {"BILLING_QUEUE": "usage"}
    place = ServiceBusDeadLetters(settings(1, **queue), Entities("usage", None, "usage", False))
    assert Resubmission(place, wishes, SystemClock(), 1).choose(judged) is choice
