"""Lists, immediately consistent, and pages of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from local.stripe_simulator.errors import invalid_parameter
from local.stripe_simulator.parameters import Parameters
from local.stripe_simulator.records import Dispute, Record, Refund
from local.stripe_simulator.rendering import render_list
from local.stripe_simulator.wire import JsonObject

PAGE_PARAMETERS = frozenset({"limit", "starting_after", "ending_before", "expand"})
_CHARGE_PARAMETERS = PAGE_PARAMETERS | {"charge", "created", "payment_intent"}
DEFAULT_LIMIT = 10
MAXIMUM_LIMIT = 100

AboutCharge = TypeVar("AboutCharge", Refund, Dispute)

_RANGE_PARAMETERS = frozenset({"gt", "gte", "lt", "lte"})


@dataclass(frozen=True, slots=True)
class CreatedRange:
    """When a listed object may have been created; seconds since the epoch, ends included."""

    first: int | None = None
    last: int | None = None

    def holds(self, created: int) -> bool:
        """Return whether a creation time lies in the range."""
        return (self.first is None or created >= self.first) and (
            self.last is None or created <= self.last
        )


def read_created(parameters: Parameters) -> CreatedRange:
    """Return the range that the `created` parameter asks for: one second, or gt, gte, lt, lte."""
    if parameters.is_text("created"):
        exact = parameters.integer("created")
        return CreatedRange(exact, exact)
    bounds = parameters.hash("created", _RANGE_PARAMETERS)
    if bounds is None:
        return CreatedRange()
    after, first = bounds.integer("gt"), bounds.integer("gte")
    before, last = bounds.integer("lt"), bounds.integer("lte")
    firsts = [bound for bound in (first, None if after is None else after + 1) if bound is not None]
    lasts = [bound for bound in (last, None if before is None else before - 1) if bound is not None]
    return CreatedRange(max(firsts, default=None), min(lasts, default=None))


def read_limit(parameters: Parameters) -> int:
    """Return the page size asked for, 1 to 100."""
    limit = parameters.integer("limit")
    if limit is None:
        return DEFAULT_LIMIT
    if not 1 <= limit <= MAXIMUM_LIMIT:
        raise invalid_parameter(f"Invalid limit: must be between 1 and {MAXIMUM_LIMIT}", "limit")
    return limit


def list_page(
    parameters: Parameters,
    candidates: Sequence[Record],
    find: Callable[[str, str], Record],
    accepts: Callable[[Record], bool],
    render: Callable[[Record], JsonObject],
    url: str,
) -> JsonObject:
    """Return one page, newest first.

    Args:
        parameters: Holds `limit`, `starting_after` and `ending_before`.
        candidates: The records to choose from, oldest first.
        find: Returns the record of a cursor id; gets the id and the parameter's name.
        accepts: Whether a record belongs in the list.
        render: Makes a record's JSON.
        url: The list's own URL.
    """
    limit = read_limit(parameters)
    starting_after = parameters.text("starting_after")
    ending_before = parameters.text("ending_before")
    if starting_after is not None and ending_before is not None:
        raise invalid_parameter(
            "You may only specify one of these parameters: ending_before, starting_after.",
            "ending_before",
        )
    if ending_before is not None:
        cursor = find(ending_before, "ending_before")
        newer = (item for item in candidates if item.sequence > cursor.sequence)
        found = list(islice(filter(accepts, newer), limit + 1))
        page = found[:limit][::-1]
    else:
        older = _older_than(candidates, starting_after, find)
        found = list(islice(filter(accepts, older), limit + 1))
        page = found[:limit]
    return render_list(url, map(render, page), len(found) > limit)


def list_by_charge(
    parameters: Parameters,
    candidates: Sequence[AboutCharge],
    find: Callable[[str, str], AboutCharge],
    render: Callable[[AboutCharge], JsonObject],
    url: str,
) -> JsonObject:
    """Return one page of what is about charges, filtered as Stripe does; see `list_page`."""
    parameters.refuse_unknown(_CHARGE_PARAMETERS)
    created = read_created(parameters)
    charge = parameters.text("charge")
    intent = parameters.text("payment_intent")
    return list_page(
        parameters,
        candidates,
        find,
        lambda item: (
            created.holds(item.created)
            and charge in (None, item.charge)
            and intent in (None, item.payment_intent)
        ),
        render,
        url,
    )


def _older_than(
    candidates: Sequence[Record], starting_after: str | None, find: Callable[[str, str], Record]
) -> Iterator[Record]:
    if starting_after is None:
        return reversed(candidates)
    cursor = find(starting_after, "starting_after")
    # In a whole table a record's place is its sequence number, so deep pages cost no walk.
    last = min(cursor.sequence, len(candidates))
    older = (candidates[index] for index in range(last - 1, -1, -1))
    return (item for item in older if item.sequence < cursor.sequence)
