"""The `$cbs` node: clients put their tokens there before they attach to anything.

Every token is good, for this is no place for secrets; a fault can refuse one.
"""

from http import HTTPStatus
from typing import Final

from local.servicebus_emulator.broker import entity_path
from local.servicebus_emulator.exchange import Reply, Request, Response
from local.servicebus_emulator.faults import TOKEN_FAULTS, Candidate, FaultPlan
from local.servicebus_emulator.wire_types import Int

NODE: Final = "$cbs"

_PUT_TOKEN: Final = "put-token"


class TokenNode:
    """Answers put-token requests.

    Args:
        faults: What may refuse a token.
    """

    def __init__(self, faults: FaultPlan) -> None:
        self._faults = faults

    def answer(self, request: Request) -> Reply:
        """Take a token."""
        operation = request.properties.get("operation")
        if operation != _PUT_TOKEN:
            return _reply(HTTPStatus.NOT_IMPLEMENTED, f"unknown operation {operation!r}")
        name = request.properties.get("name")
        if not isinstance(name, str):
            return _reply(HTTPStatus.BAD_REQUEST, "the name of the entity is missing")
        if self._faults.choose(TOKEN_FAULTS, Candidate(entity_path(name), _PUT_TOKEN)) is not None:
            return _reply(HTTPStatus.UNAUTHORIZED, "a fault on demand refuses the token")
        return _reply(HTTPStatus.ACCEPTED, "Accepted")


def _reply(status: HTTPStatus, description: str) -> Reply:
    return Reply(Response({"status-code": Int(status), "status-description": description}))
