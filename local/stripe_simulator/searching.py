"""Search, which lags: what changed a moment ago is not found yet.

Stripe's index would show the older version of a changed object. Here it is hidden until the
index caught up, which is the harder case for a client: an empty search proves nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from local.stripe_simulator.errors import INVALID_REQUEST, StripeError, invalid_parameter
from local.stripe_simulator.listing import read_limit
from local.stripe_simulator.records import Record, Table
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call

SEARCH_PARAMETERS = frozenset({"query", "limit", "page", "expand"})
MAXIMUM_CLAUSES = 10

Fields: TypeAlias = dict[str, Callable[[Record], str | int | None]]

_CLAUSE = re.compile(
    r"""\s*(?P<negated>-?)(?P<field>[a-z_]+)(\[(?P<mark>["'])(?P<key>[^"']{1,40})(?P=mark)\])?
    \s*(?P<operator>:|~|>=|<=|>|<)\s*
    (?:(?P<quote>["'])(?P<text>(?:\\.|(?!(?P=quote)).)*)(?P=quote)|(?P<number>-?\d+)|(?P<null>null))
    \s*""",
    re.VERBOSE,
)
_JOINER = re.compile(r"(?P<word>AND|OR)\b|(?=-?[a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition of a query. `value` is None when it asks for an unset field."""

    field: str
    key: str | None
    operator: str
    value: str | int | None
    negated: bool

    def holds(self, found: str | int | None) -> bool:
        """Return whether an object with this value of the field matches."""
        return self._compare(found) != self.negated

    def _compare(self, found: str | int | None) -> bool:
        if self.value is None or found is None:
            return self.operator == ":" and self.value is found
        if self.operator == ":":
            return str(found) == str(self.value)
        if self.operator == "~":
            return str(self.value).lower() in str(found).lower()
        if not isinstance(found, int) or not str(self.value).lstrip("-").isdigit():
            return False
        wanted = int(self.value)
        return {
            ">": found > wanted,
            "<": found < wanted,
            ">=": found >= wanted,
            "<=": found <= wanted,
        }[self.operator]


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions that must all hold, or of which one must."""

    clauses: tuple[Clause, ...]
    any_suffices: bool


def parse_query(text: str) -> Query:
    """Return the query that a search text stands for.

    Raises:
        StripeError: It is not in Stripe's search language, mixes AND with OR, or is too long.
    """
    clauses: list[Clause] = []
    joiners: set[str] = set()
    position = 0
    while position < len(text):
        if clauses:
            joiner = _JOINER.match(text, position)
            if joiner is None:
                raise _bad_query(text)
            joiners.add((joiner["word"] or "AND").upper())
            position = joiner.end()
        match = _CLAUSE.match(text, position)
        if match is None or len(clauses) == MAXIMUM_CLAUSES:
            raise _bad_query(text)
        clauses.append(_clause(match))
        position = match.end()
    if not clauses or len(joiners) > 1:
        raise _bad_query(text)
    return Query(tuple(clauses), joiners == {"OR"})


def search_page(
    call: Call,
    table: Table[Record],
    fields: Fields[Record],
    metadata: Callable[[Record], dict[str, str]],
    render: Callable[[Record], JsonObject],
    url: str,
) -> JsonObject:
    """Return one page of what the lagging index holds, newest first.

    Args:
        call: Carries `query`, `limit` and `page`.
        table: The records to search.
        fields: How to read each searchable field.
        metadata: How to read a record's metadata.
        render: Makes a record's JSON.
        url: The search's own URL.
    """
    parameters = call.parameters
    parameters.refuse_unknown(SEARCH_PARAMETERS)
    query = parse_query(parameters.required_text("query"))
    limit = read_limit(parameters)
    offset = _read_page(parameters.text("page"))
    for clause in query.clauses:
        if clause.field not in fields and not (clause.field == "metadata" and clause.key):
            raise StripeError(
                400, INVALID_REQUEST, f"Field `{clause.field}` is an unsupported search field."
            )
    indexed_until = call.now - call.world.options.search_lag_seconds

    def matches(record: Record) -> bool:
        if record.updated_at > indexed_until:
            return False
        verdicts = (
            clause.holds(
                metadata(record).get(clause.key)
                if clause.key is not None
                else fields[clause.field](record)
            )
            for clause in query.clauses
        )
        return any(verdicts) if query.any_suffices else all(verdicts)

    found = list(islice(filter(matches, reversed(table.all())), offset, offset + limit + 1))
    has_more = len(found) > limit
    return {
        "object": "search_result",
        "data": [render(record) for record in found[:limit]],
        "has_more": has_more,
        "next_page": f"offset_{offset + limit}" if has_more else None,
        "url": url,
    }


def _clause(match: re.Match[str]) -> Clause:
    value: str | int | None
    if match["null"]:
        value = None
    elif match["number"] is not None:
        value = int(match["number"])
    else:
        value = re.sub(r"\\(.)", r"\1", match["text"])
    return Clause(match["field"], match["key"], match["operator"], value, bool(match["negated"]))


def _read_page(page: str | None) -> int:
    if page is None:
        return 0
    prefix, _, offset = page.partition("_")
    if prefix != "offset" or not offset.isdigit():
        raise invalid_parameter(f"Invalid page: {page[:40]}", "page")
    return int(offset)


def _bad_query(text: str) -> StripeError:
    return invalid_parameter(f"We were unable to parse your search query: {text[:200]}", "query")
