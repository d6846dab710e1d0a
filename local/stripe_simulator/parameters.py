"""Form parameters in Stripe's bracket notation, checked one by one."""

import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import unquote_plus

from local.stripe_simulator.errors import (
    INVALID_REQUEST,
    StripeError,
    invalid_parameter,
    missing_parameter,
)

FormValue: TypeAlias = "str | dict[str, FormValue]"
FormPairs: TypeAlias = list[tuple[str, str]]

MAXIMUM_FIELDS = 1000
MAXIMUM_DEPTH = 6
METADATA_PAIRS = 50
METADATA_KEY_CHARACTERS = 40
METADATA_VALUE_CHARACTERS = 500
TEXT_CHARACTERS = 5000

_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def read_pairs(encoded: str) -> FormPairs:
    """Return the fields of a form or query string in their order.

    Raises:
        StripeError: Too many fields, or bytes that are not UTF-8.
    """
    if not encoded:
        return []
    if encoded.count("&") >= MAXIMUM_FIELDS:
        raise _unreadable(f"at most {MAXIMUM_FIELDS} fields are allowed")
    # Clients encode the brackets of every name; this spares most fields the slow decoding.
    fields = encoded.replace("%5B", "[").replace("%5D", "]").split("&")
    pairs: FormPairs = []
    for item in fields:
        if item:
            name, _, value = item.partition("=")
            pairs.append((_decoded(name), _decoded(value)))
    return pairs


def nest_pairs(pairs: FormPairs) -> dict[str, FormValue]:
    """Return the fields as nested values: `a[b]=1` becomes `{"a": {"b": "1"}}`.

    A list is a hash whose names count: `a[0]=x` and `a[]=x` both become `{"a": {"0": "x"}}`.
    A later field replaces an earlier one of the same name, as it does at Stripe.
    """
    form: dict[str, FormValue] = {}
    for name, value in pairs:
        if "[" in name:
            _insert(form, _segments(name), value)
        else:
            form[name] = value
    return form


class Parameters:
    """The parameters of one request, read by name and checked as they are read."""

    def __init__(self, form: Mapping[str, FormValue]) -> None:
        self._form = form

    def __contains__(self, name: str) -> bool:
        return name in self._form

    def is_text(self, name: str) -> bool:
        """Return whether the parameter was given as a plain value, not as a hash."""
        return isinstance(self._form.get(name), str)

    def holds_any(self, names: frozenset[str]) -> bool:
        """Return whether at least one of the names was given."""
        return not names.isdisjoint(self._form)

    def refuse_unknown(self, known: AbstractSet[str]) -> None:
        """Raise `parameter_unknown` for the first name that is not in `known`."""
        if self._form.keys() <= known:
            return
        name = next(name for name in self._form if name not in known)
        raise invalid_parameter(f"Received unknown parameter: {name}", name, "parameter_unknown")

    def text(self, name: str) -> str | None:
        """Return a text, or None when it is absent."""
        value = self._form.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise invalid_parameter(f"Invalid string: {name}", name)
        if len(value) > TEXT_CHARACTERS:
            raise invalid_parameter(
                f"Invalid string: {value[:20]}...; must be at most {TEXT_CHARACTERS} characters",
                name,
            )
        return value

    def required_text(self, name: str) -> str:
        """Return a text that must be there and not be empty."""
        value = self.text(name)
        if value is None:
            raise missing_parameter(name)
        if not value:
            raise invalid_parameter(
                f"You passed an empty string for '{name}'. We assume empty values are an attempt "
                f"to unset a parameter; however '{name}' cannot be unset. You should remove "
                f"'{name}' from your request or supply a non-empty value.",
                name,
                "parameter_invalid_empty",
            )
        return value

    def changed_text(self, name: str, current: str | None) -> str | None:
        """Return a text, `current` when it is absent, None when an empty text unsets it."""
        value = self.text(name)
        return current if value is None else value or None

    def choice(self, name: str, allowed: Collection[str]) -> str | None:
        """Return a text that must be one of `allowed`, or None when it is absent."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise invalid_parameter(
                f"Invalid {name}: must be one of {', '.join(sorted(allowed))}", name
            )
        return value

    def integer(self, name: str) -> int | None:
        """Return an integer, or None when it is absent."""
        value = self.text(name)
        if value is None:
            return None
        if not _INTEGER.match(value):
            raise invalid_parameter(
                f"Invalid integer: {value[:40]}", name, "parameter_invalid_integer"
            )
        return int(value)

    def required_integer(self, name: str) -> int:
        """Return an integer that must be there."""
        value = self.integer(name)
        if value is None:
            raise missing_parameter(name)
        return value

    def boolean(self, name: str) -> bool | None:
        """Return a boolean, or None when it is absent."""
        value = self.text(name)
        if value is None:
            return None
        if value not in {"true", "false"}:
            raise invalid_parameter(f"Invalid boolean: {value[:40]}", name)
        return value == "true"

    def hash(self, name: str, known: Collection[str]) -> "Parameters | None":
        """Return nested parameters, or None when they are absent or an empty text."""
        value = self._form.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, dict):
            raise invalid_parameter("Invalid object", name)
        nested = Parameters(value)
        for key in value:
            if key not in known:
                raise invalid_parameter(
                    f"Received unknown parameter: {name}[{key}]",
                    f"{name}[{key}]",
                    "parameter_unknown",
                )
        return nested

    def any_hash(self, name: str) -> dict[str, FormValue] | None:
        """Return a nested value that is kept as it came, or None when it is absent."""
        value = self._form.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, dict):
            raise invalid_parameter("Invalid object", name)
        return value

    def texts(self, name: str) -> list[str] | None:
        """Return a list of texts, or None when it is absent."""
        value = self._form.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise invalid_parameter("Invalid array", name)
        return [item for item in value.values() if isinstance(item, str)]

    def metadata(self) -> dict[str, str] | None:
        """Return the metadata given, or None. An empty text as a whole unsets everything.

        Raises:
            StripeError: Too many pairs, a key or value too long, or not a flat hash.
        """
        value = self._form.get("metadata")
        if value is None:
            return None
        if value == "":
            return {}
        if not isinstance(value, dict):
            raise invalid_parameter("Metadata must be a hash", "metadata")
        return {key: _metadata_value(key, item) for key, item in value.items()}


def merge_metadata(current: Mapping[str, str], given: Mapping[str, str] | None) -> dict[str, str]:
    """Return `current` changed by `given`: an empty value unsets its key.

    Raises:
        StripeError: The result has more pairs than Stripe allows.
    """
    if given is None:
        return dict(current)
    if not given:
        return {}
    merged = {key: value for key, value in {**current, **given}.items() if value}
    if len(merged) > METADATA_PAIRS:
        raise invalid_parameter(
            f"Metadata can have at most {METADATA_PAIRS} keys; you have {len(merged)}.", "metadata"
        )
    return merged


def _metadata_value(key: str, value: FormValue) -> str:
    param = f"metadata[{key}]"
    if not isinstance(value, str):
        raise invalid_parameter("Metadata values must be strings", param)
    if len(key) > METADATA_KEY_CHARACTERS:
        raise invalid_parameter(
            f"Metadata keys can be at most {METADATA_KEY_CHARACTERS} characters long", param
        )
    if len(value) > METADATA_VALUE_CHARACTERS:
        raise invalid_parameter(
            f"Metadata values must have at most {METADATA_VALUE_CHARACTERS} characters", param
        )
    return value


def _decoded(text: str) -> str:
    if "%" not in text and "+" not in text:
        return text
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError as error:
        raise _unreadable("it is not UTF-8") from error


def _unreadable(reason: str) -> StripeError:
    return StripeError(400, INVALID_REQUEST, f"Invalid request: {reason}.", stored=False)


@lru_cache(maxsize=1024)
def _segments(name: str) -> tuple[str, ...]:
    head, _, _ = name.partition("[")
    inner = _BRACKETS.findall(name, len(head))
    if not head or f"{head}[{']['.join(inner)}]" != name or len(inner) > MAXIMUM_DEPTH:
        raise invalid_parameter(f"Invalid parameter name: {name[:80]}", name[:80])
    return (head, *inner)


def _insert(form: dict[str, FormValue], segments: tuple[str, ...], value: str) -> None:
    container = form
    for segment in segments[:-1]:
        nested = container.get(segment)
        if not isinstance(nested, dict):
            nested = {}
        container[segment] = nested
        container = nested
    # `a[]=x` counts on: the list reads back in the order of the fields.
    container[segments[-1] or str(len(container))] = value
