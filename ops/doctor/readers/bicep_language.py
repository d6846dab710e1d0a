"""As much of Bicep as the templates need: parameters, variables, conditions and modules.

Whatever else there is stands for itself as text, so that nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ops.errors import PackageMissing, Refused

_INTERPOLATED = re.compile(r"\$\{([^{}]*)\}")
_PARAMETER = re.compile(r"^param (\w+) = (?:'([^'\n]*)'|(-?\d+)|(true|false))[ \t]*$", re.MULTILINE)
_ENVIRONMENT = re.compile(r"^param (\w+) = readEnvironmentVariable\(", re.MULTILINE)


def parse_bicep(path: Path) -> Mapping[str, Any]:
    """The file as pycep-parser understands it.

    Raises:
        PackageMissing: it is not installed.
        Refused: the file has mistakes.
        FileNotFoundError: there is none.
    """
    try:
        from pycep import BicepParser
    except ImportError:
        raise PackageMissing(
            "reading Bicep takes the package pycep-parser: "
            "`python -m pip install -r requirements-dev.txt`"
        ) from None
    text = path.read_text("utf-8")
    try:
        return _parsed(BicepParser, text)
    except Exception as error:
        raise Refused(f"{path} is no Bicep that can be read: {error}") from error


# Each module is read for each parameter file; reading it takes longer than all the rest.
@cache
def _parsed(parser: Callable[[], Any], text: str) -> Mapping[str, Any]:
    parsed: Mapping[str, Any] = parser().parse(text=text)
    return parsed


def read_parameters(path: Path) -> Mapping[str, object]:
    """The plain values of a .bicepparam file; what comes from the environment is a secret or ours
    to name, and is left out.
    """
    values: dict[str, object] = {}
    text = path.read_text("utf-8")
    for name, quoted, number, truth in _PARAMETER.findall(text):
        values[name] = int(number) if number else truth == "true" if truth else quoted
    for name in _ENVIRONMENT.findall(text):
        values[name] = f"from the environment: {name}"
    return values


class Scope:
    """The names that a file knows, with their values.

    Args:
        parsed: by `parse_bicep`.
        given: parameters, which go before their defaults.
    """

    def __init__(self, parsed: Mapping[str, Any], given: Mapping[str, object]) -> None:
        defaults = {name: each["default"] for name, each in parsed["parameters"].items()}
        self._variables = {
            name: each["value"] for name, each in parsed.get("variables", {}).items()
        }
        self._parameters = {**defaults, **given}
        self._defaults = defaults.keys() - given.keys()

    def evaluate(self, node: Any) -> Any:
        """The value of an expression."""
        if type(node).__name__ == "BicepElement":
            return self._named(str(node))
        if isinstance(node, str):
            return _INTERPOLATED.sub(lambda match: self._interpolated(match[1]), node)
        if isinstance(node, list):
            return [self.evaluate(each) for each in node]
        if isinstance(node, dict):
            return self._compound(node)
        return node

    def _named(self, name: str) -> Any:
        if name in self._variables:
            return self.evaluate(self._variables[name])
        if name in self._defaults:
            return self.evaluate(self._parameters[name])
        return self._parameters.get(name, f"<{name}>")

    def _interpolated(self, name: str) -> str:
        known = name in self._variables or name in self._parameters
        return str(self._named(name)) if known else f"<{name}>"

    def _compound(self, node: Mapping[str, Any]) -> Any:
        if node.keys() == {"function"}:
            return self._call(node["function"])
        if node.keys() == {"operator"}:
            return self._operate(node["operator"])
        return {str(name).strip("'"): self.evaluate(value) for name, value in node.items()}

    def _call(self, function: Mapping[str, Any]) -> Any:
        arguments = [self.evaluate(value) for value in function["parameters"].values()]
        known: Mapping[str, Callable[..., Any]] = {
            "string": str,
            "empty": lambda value: not value,
            "union": lambda *parts: {name: part[name] for part in parts for name in part},
        }
        call = known.get(function["type"])
        return call(*arguments) if call is not None else f"<{function['type']}>"

    def _operate(self, operator: Mapping[str, Any]) -> Any:
        operands = operator["operands"]
        if operator["type"] == "conditional":
            taken = "true_value" if self.evaluate(operands["condition"]) else "false_value"
            return self.evaluate(operands[taken])
        if operator["type"] == "equals":
            left, right = (self.evaluate(each) for each in operands.values())
            return left == right
        if operator["type"] == "not":
            return not self.evaluate(operands["bool_value"])
        return f"<{operator['type']}>"
