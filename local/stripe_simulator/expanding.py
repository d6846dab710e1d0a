"""The `expand` parameter: ids in an answer replaced by the objects they name."""

from collections.abc import Callable

from local.stripe_simulator.errors import invalid_parameter
from local.stripe_simulator.records import Scope
from local.stripe_simulator.rendering import (
    render_card,
    render_charge,
    render_customer,
    render_instrument,
    render_intent,
)
from local.stripe_simulator.wire import JsonObject

MAXIMUM_DEPTH = 4


def check_expandable(paths: list[str]) -> None:
    """Raise a `StripeError` when a path is too deep or ends in what can never be expanded."""
    for path in paths:
        segments = path.split(".")
        if len(segments) > MAXIMUM_DEPTH:
            raise invalid_parameter(
                f"You cannot expand more than {MAXIMUM_DEPTH} levels of a property: {path[:80]}",
                "expand",
            )
        if segments[-1] not in _EXPANDERS:
            raise invalid_parameter(f"This property cannot be expanded ({path[:80]}).", "expand")


def expand(answer: JsonObject, paths: list[str], scope: Scope) -> None:
    """Replace the ids at `paths`, such as `latest_charge` or `data.customer`, in place."""
    for path in paths:
        _expand_path(answer, path.split("."), scope)


def _expand_path(holder: JsonObject, segments: list[str], scope: Scope) -> None:
    name, *rest = segments
    value = holder.get(name)
    if isinstance(value, str) and name in _EXPANDERS:
        value = holder[name] = _EXPANDERS[name](value, scope)
    if not rest:
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            _expand_path(item, rest, scope)


def _customer(object_id: str, scope: Scope) -> JsonObject | None:
    found = scope.customers.get(object_id)
    return render_customer(found, scope) if found else None


def _charge(object_id: str, scope: Scope) -> JsonObject | None:
    found = scope.charges.get(object_id)
    return render_charge(found, scope) if found else None


def _intent(object_id: str, scope: Scope) -> JsonObject | None:
    found = scope.payment_intents.get(object_id)
    return render_intent(found, scope) if found else None


def _payment_method(object_id: str, scope: Scope) -> JsonObject | None:
    found = scope.instruments.get(object_id)
    return render_instrument(found, scope) if found else None


def _source(object_id: str, scope: Scope) -> JsonObject | None:
    found = scope.instruments.get(object_id)
    return render_card(found) if found else None


_EXPANDERS: dict[str, Callable[[str, Scope], JsonObject | None]] = {
    "charge": _charge,
    "customer": _customer,
    "default_payment_method": _payment_method,
    "default_source": _source,
    "latest_charge": _charge,
    "payment_intent": _intent,
    "payment_method": _payment_method,
    "source": _source,
}
