"""Reading Stripe's own lists, page by page: for rebuilding, sweeping and the audit.

A list is immediately consistent, newest first, and filters by creation time and customer only
(https://docs.stripe.com/api/pagination); metadata is matched by the reader. Search lags, so it is
never used. No delivery reads lists on its way to a usual charge: Stripe limits reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.budget import Budget
from shared.errors import StripeUnavailable
from shared.ports import Clock, Payments, StripeRequest
from shared.stripe_answers import Answer, AnswerKind
from shared.stripe_calls import StripeCalls
from shared.stripe_requests import LIST_PAGE_SIZE
from shared.throttle import Throttle

PAGE_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list.

    Args:
        items: Stripe's objects, newest first. Never logged: they carry secrets.
        cursor: asks for the page after this one; None after the last page.
    """

    items: Sequence[Mapping[str, Any]] = field(repr=False)
    cursor: str | None


class StripeLists:
    """Reads lists, and single objects, with patience: outside of any delivery's budget.

    Args:
        payments: the port to Stripe.
        clock: time and chance.
        throttle: the instance's request rate.
        attempt_seconds: the most that one request may take.
    """

    def __init__(
        self, payments: Payments, clock: Clock, throttle: Throttle, attempt_seconds: float
    ) -> None:
        self._calls = StripeCalls(payments, clock, throttle, PAGE_ATTEMPTS)
        self._clock = clock
        self._attempt_seconds = attempt_seconds

    def pages(
        self, path: str, parameters: Mapping[str, str], cursor: str | None = None
    ) -> Iterator[Page]:
        """Yield the pages of a list.

        Args:
            path: of the list, such as `/v1/payment_intents`.
            parameters: filters such as `created[gte]`, and `expand[]`.
            cursor: where an earlier reading got to; None for the beginning.

        Raises:
            StripeUnavailable: a page could not be had. What was yielded before stands; its cursor
                goes on from there.
        """
        while True:
            page = self._read_page(path, parameters, cursor)
            yield page
            if page.cursor is None:
                return
            cursor = page.cursor

    def items(self, path: str, parameters: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        """Yield the objects of a whole list; see `pages`."""
        for page in self.pages(path, parameters):
            yield from page.items

    def get(
        self, path: str, parameters: Mapping[str, str] | None = None
    ) -> Mapping[str, Any] | None:
        """Read one object; None when Stripe says that there is none.

        Args:
            path: of the object.
            parameters: such as `expand[]`.

        Raises:
            StripeUnavailable: it could not be had.
        """
        answer = self._ask(StripeRequest("get", path, parameters or {}))
        return None if answer.kind is AnswerKind.MISSING else answer.content

    def _read_page(self, path: str, parameters: Mapping[str, str], cursor: str | None) -> Page:
        asked = {**parameters, "limit": str(LIST_PAGE_SIZE)}
        if cursor is not None:
            asked["starting_after"] = cursor
        content = self._ask(StripeRequest("get", path, asked)).content
        items = content.get("data")
        if not isinstance(items, list):
            raise StripeUnavailable(f"Stripe's answer to {path} is no list")
        goes_on = bool(items) and content.get("has_more") is True
        return Page(items, str(items[-1]["id"]) if goes_on else None)

    def _ask(self, request: StripeRequest) -> Answer:
        budget_seconds = 2 * PAGE_ATTEMPTS * self._attempt_seconds
        budget = Budget(self._clock, budget_seconds, self._attempt_seconds)
        answer = self._calls.send(request, budget).answer
        if answer.kind in (AnswerKind.OK, AnswerKind.MISSING):
            return answer
        raise StripeUnavailable(
            f"Stripe did not answer {request.method.upper()} {request.path}: "
            f"{answer.code} {answer.message}".rstrip(),
            status=answer.status,
        )
