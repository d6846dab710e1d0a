"""A typed client of the control API, for an emulator in another process."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from local.pubsub_emulator.backlog import BacklogSummary
from local.pubsub_emulator.errors import NotFound
from local.pubsub_emulator.faults import Fault, InjectedFault
from local.pubsub_emulator.journal import Event, EventFilter, JournalOverflow

ANSWER_SECONDS: Final = 30.0


class ControlClient:
    """Controls an emulator that runs elsewhere; see `control.Control`.

    Each call uses a connection of its own.
    """

    def __init__(self, base_url: str) -> None:
        """Remember where the control API is, for example `http://127.0.0.1:8086`."""
        self._address = urlsplit(base_url).netloc

    def inject(self, fault: Fault) -> str:
        """Put a fault into force; see `Control`."""
        return str(self._call("POST", "/faults", fault.to_json())["fault_id"])

    def faults(self) -> list[InjectedFault]:
        """Return the faults in force; see `Control`."""
        return [InjectedFault.from_json(one) for one in self._call("GET", "/faults")["faults"]]

    def remove_fault(self, fault_id: str) -> bool:
        """Take a fault out of force; see `Control`."""
        return bool(self._call("DELETE", f"/faults?{urlencode({'id': fault_id})}")["removed"])

    def clear_faults(self) -> None:
        """Take every fault out of force."""
        self._call("DELETE", "/faults")

    def events(self, wanted: EventFilter | None = None) -> list[Event]:
        """Return what happened; see `Control`."""
        return self._events(wanted or EventFilter(), {}, 0.0)

    def wait_for_events(
        self, wanted: EventFilter, at_least: int = 1, wait_seconds: float = 10.0
    ) -> list[Event]:
        """Wait until so many events fit, at most a minute; see `Control`."""
        waiting = {"at_least": at_least, "wait_seconds": wait_seconds}
        return self._events(wanted, waiting, wait_seconds)

    def cut_streams(self, subscription: str | None = None) -> int:
        """End pull streams; see `Control`."""
        given = {} if subscription is None else {"subscription": subscription}
        return int(self._call("POST", "/streams/cut", given)["cut"])

    def backlog(self, subscription: str) -> BacklogSummary:
        """Return how many messages a subscription holds; see `Control`."""
        found = self._call("GET", f"/backlog?{urlencode({'subscription': subscription})}")
        return BacklogSummary(**found)

    def _events(
        self, wanted: EventFilter, waiting: Mapping[str, float], wait_seconds: float
    ) -> list[Event]:
        limits = {name: value for name, value in asdict(wanted).items() if value is not None}
        path = f"/events?{urlencode({**limits, **waiting})}"
        answer = self._call("GET", path, wait_seconds=wait_seconds)
        return [Event.from_json(event) for event in answer["events"]]

    def _call(
        self,
        method: str,
        path: str,
        given: Mapping[str, Any] | None = None,
        wait_seconds: float = 0.0,
    ) -> dict[str, Any]:
        body = None if given is None else json.dumps(given).encode()
        connection = HTTPConnection(self._address, timeout=ANSWER_SECONDS + wait_seconds)
        try:
            connection.request(method, path, body, {"Connection": "close"})
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status != HTTPStatus.OK:
            raise _ERRORS.get(response.status, ValueError)(answer["error"])
        return answer


_ERRORS: Final[Mapping[int, type[Exception]]] = {
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.GONE: JournalOverflow,
    HTTPStatus.REQUEST_TIMEOUT: TimeoutError,
}
