"""What a test asks of an emulator and tells it to do, wherever the emulator runs."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from local.servicebus_emulator.control_api import ControlAnswer, ControlRequest, QueueStatus
from local.servicebus_emulator.faults import Fault, FaultStatus
from local.servicebus_emulator.journal import (
    DeliveryRecord,
    JsonObject,
    RenewalRecord,
    SettlementRecord,
)
from local.servicebus_emulator.options import QueueSettings

CALL_SECONDS: Final = 30.0

Caller: TypeAlias = Callable[[ControlRequest], ControlAnswer]


class ControlError(Exception):
    """The emulator did not do what it was told; the message says why."""


class EmulatorControl:
    """The controls of one emulator.

    Every method raises `ControlError` when the emulator says no, or does not answer.

    Args:
        caller: Brings a request to the emulator and its answer back.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def now(self) -> float:
        """Return the time of the emulator's clock, in seconds since the epoch."""
        return float(self._call("GET", "/status")["now"])

    def connection_count(self) -> int:
        """Return how many clients are connected."""
        return int(self._call("GET", "/status")["connections"])

    def queues(self) -> list[QueueStatus]:
        """Return every queue and subscription."""
        return [QueueStatus.from_json(each) for each in self._call("GET", "/queues")["queues"]]

    def queue(self, path: str) -> QueueStatus:
        """Return one queue or subscription.

        Raises:
            ControlError: There is none of that name.
        """
        for status in self.queues():
            if status.path.lower() == path.lower():
                return status
        raise ControlError(f"there is no queue {path}")

    def configure_queue(self, path: str, settings: QueueSettings) -> None:
        """Treat the consumers of a queue otherwise, from the next lock on."""
        self._call("PATCH", "/queues", body={"path": path, **asdict(settings)})

    def purge_queue(self, path: str) -> None:
        """Let a queue forget every message, locked and dead ones too."""
        self._call("POST", "/queues/purge", body={"path": path})

    def settlements(self, queue: str | None = None) -> list[SettlementRecord]:
        """Return the settlements that reached the broker, oldest first."""
        records = self._call("GET", "/settlements", _query(queue=queue))["settlements"]
        return [SettlementRecord.from_json(each) for each in records]

    def renewals(self, queue: str | None = None) -> list[RenewalRecord]:
        """Return the renewals that reached the broker, oldest first."""
        records = self._call("GET", "/renewals", _query(queue=queue))["renewals"]
        return [RenewalRecord.from_json(each) for each in records]

    def deliveries(self, queue: str | None = None) -> list[DeliveryRecord]:
        """Return the deliveries that the broker made, oldest first."""
        records = self._call("GET", "/deliveries", _query(queue=queue))["deliveries"]
        return [DeliveryRecord.from_json(each) for each in records]

    def forget_records(self) -> None:
        """Forget all settlements, renewals and deliveries."""
        self._call("DELETE", "/records")

    def add_fault(self, fault: Fault) -> str:
        """Put a fault into force and return its id."""
        return str(self._call("POST", "/faults", body=fault.to_json())["id"])

    def remove_fault(self, fault_id: str) -> None:
        """Take a fault out of force."""
        self._call("DELETE", "/faults", _query(id=fault_id))

    def clear_faults(self) -> None:
        """Take every fault out of force."""
        self._call("DELETE", "/faults")

    def faults(self) -> list[FaultStatus]:
        """Return the faults in force, with how often each struck."""
        return [FaultStatus.from_json(each) for each in self._call("GET", "/faults")["faults"]]

    def cut_connections(self) -> int:
        """Cut every connection; return how many there were."""
        return int(self._call("POST", "/connections/cut")["cut"])

    def refuse_connections(self, seconds: float) -> None:
        """Cut off whoever connects within the next seconds."""
        self._call("POST", "/connections/refuse", body={"seconds": seconds})

    def advance_clock(self, seconds: float) -> None:
        """Move the emulator's clock forward: locks run out, scheduled messages become active."""
        self._call("POST", "/clock/advance", body={"seconds": seconds})

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> JsonObject:
        answer = self._caller(ControlRequest(method, path, query or {}, body or {}))
        if answer.status is not HTTPStatus.OK:
            raise ControlError(str(answer.body.get("error", answer.status.phrase)))
        return answer.body


def call_over_http(base_url: str) -> Caller:
    """Return what brings requests to the control API at an address."""

    def call(request: ControlRequest) -> ControlAnswer:
        query = f"?{urlencode(request.query)}" if request.query else ""
        message = urllib.request.Request(  # noqa: S310 (the address is the emulator's own)
            f"{base_url}{request.path}{query}",
            method=request.method,
            data=json.dumps(request.body).encode(),
            headers={"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(message, timeout=CALL_SECONDS) as answer:  # noqa: S310
                return ControlAnswer(HTTPStatus(answer.status), json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return ControlAnswer(HTTPStatus(error.code), json.load(error))
        except OSError as error:
            raise ControlError(f"the emulator does not answer: {error}") from error

    return call


def _query(**parameters: str | None) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value is not None}
