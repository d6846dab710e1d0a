"""The control API over HTTP; see `control` for what there is."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from local.pubsub_emulator import control
from local.pubsub_emulator.errors import BrokerError
from local.pubsub_emulator.faults import Fault
from local.pubsub_emulator.journal import EventFilter, EventKind, JournalOverflow, Outcome

MAXIMUM_BODY_BYTES: Final = 64 * 1024
MAXIMUM_CONNECTIONS: Final = 32
LONGEST_WAIT_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 75.0

_STATUSES: Final[Mapping[type[Exception], HTTPStatus]] = {
    BrokerError: HTTPStatus.NOT_FOUND,
    LookupError: HTTPStatus.NOT_FOUND,
    JournalOverflow: HTTPStatus.GONE,
    TimeoutError: HTTPStatus.REQUEST_TIMEOUT,
    ValueError: HTTPStatus.BAD_REQUEST,
    TypeError: HTTPStatus.BAD_REQUEST,
}

JsonObject = dict[str, Any]
Route = Callable[[control.Control, Mapping[str, str], JsonObject], JsonObject]


class ControlServer:
    """Serves the control API from threads of this process."""

    def __init__(self, controlled: control.Control, host: str, port: int) -> None:
        """Take the address.

        Args:
            controlled: The emulator.
            host: The address to listen on.
            port: The port; 0 takes a free one.

        Raises:
            OSError: The address cannot be had.
        """
        try:
            self._server = _BoundedServer((host, port), controlled)
        except OSError as error:
            raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="pubsub-emulator-control",
            daemon=True,
        )

    def start(self) -> None:
        """Serve."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving. The exchange is closed before, so nobody waits for events any more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _BoundedServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MAXIMUM_CONNECTIONS

    def __init__(self, address: tuple[str, int], controlled: control.Control) -> None:
        self.controlled = controlled
        self._free = threading.BoundedSemaphore(MAXIMUM_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(BaseHTTPRequestHandler):
    server: _BoundedServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet: the emulator's output is for whoever started it."""

    def _answer(self, method: str) -> None:
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query, keep_blank_values=True))
        try:
            given = self._read_body()
            answer = _call(self.server.controlled, f"{method} {address.path}", query, given)
        except tuple(_STATUSES) as error:
            status = next(code for kind, code in _STATUSES.items() if isinstance(error, kind))
            self._send(status, {"error": str(error)})
        else:
            self._send(HTTPStatus.OK, answer)

    def _read_body(self) -> JsonObject:
        size = int(self.headers.get("Content-Length") or 0)
        if size > MAXIMUM_BODY_BYTES:
            self.close_connection = True
            raise ValueError(f"the body has more than {MAXIMUM_BODY_BYTES} bytes")
        given: Any = json.loads(self.rfile.read(size)) if size else {}
        if not isinstance(given, dict):
            raise TypeError("the body is not a JSON object")
        return given

    def _send(self, status: HTTPStatus, answer: JsonObject) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _call(
    controlled: control.Control, route: str, query: Mapping[str, str], given: JsonObject
) -> JsonObject:
    if route not in _ROUTES:
        raise LookupError(f"there is no {route}; GET / tells what there is")
    return _ROUTES[route](controlled, query, given)


def _usage(_: control.Control, __: Mapping[str, str], ___: JsonObject) -> JsonObject:
    return {"usage": (control.__doc__ or "").splitlines()}


def _events(controlled: control.Control, query: Mapping[str, str], _: JsonObject) -> JsonObject:
    wanted = EventFilter(
        kind=EventKind(query["kind"]) if "kind" in query else None,
        resource=query.get("resource"),
        message_id=query.get("message_id"),
        outcome=Outcome(query["outcome"]) if "outcome" in query else None,
        after=int(query.get("after", 0)),
    )
    at_least = int(query.get("at_least", 0))
    wait_seconds = min(float(query.get("wait_seconds", 0.0)), LONGEST_WAIT_SECONDS)
    events = controlled.wait_for_events(wanted, at_least, wait_seconds)
    return {"events": [event.to_json() for event in events]}


def _faults(controlled: control.Control, _: Mapping[str, str], __: JsonObject) -> JsonObject:
    return {"faults": [fault.to_json() for fault in controlled.faults()]}


def _inject(controlled: control.Control, _: Mapping[str, str], given: JsonObject) -> JsonObject:
    return {"fault_id": controlled.inject(Fault.from_json(given))}


def _remove(controlled: control.Control, query: Mapping[str, str], _: JsonObject) -> JsonObject:
    if "id" in query:
        return {"removed": controlled.remove_fault(query["id"])}
    controlled.clear_faults()
    return {"removed": True}


def _cut(controlled: control.Control, _: Mapping[str, str], given: JsonObject) -> JsonObject:
    return {"cut": controlled.cut_streams(given.get("subscription"))}


def _backlog(controlled: control.Control, query: Mapping[str, str], _: JsonObject) -> JsonObject:
    return asdict(controlled.backlog(query.get("subscription", "")))


_ROUTES: Final[Mapping[str, Route]] = {
    "GET /": _usage,
    "GET /events": _events,
    "GET /faults": _faults,
    "POST /faults": _inject,
    "DELETE /faults": _remove,
    "POST /streams/cut": _cut,
    "GET /backlog": _backlog,
}
