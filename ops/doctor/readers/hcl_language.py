"""As much of Terraform's expressions as the templates need; the rest stands for itself as text, so
that nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ops.errors import PackageMissing, Refused

_WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|[A-Za-z_][\w-]*|==|=>|[{}\[\]().,?:=!])')
_INTERPOLATED = re.compile(r"\$\{([^{}]*)\}")
_CONSTANTS = {"true": True, "false": False, "null": None}

Find = Callable[[str], Any]


def parse_folder(folder: Path) -> Mapping[str, list[Any]]:
    """All blocks of a folder's files, by their kind.

    Raises:
        PackageMissing: the parser is not installed.
    """
    blocks: dict[str, list[Any]] = {}
    for path in sorted(folder.glob("*.tf")):
        for kind, found in parse_file(path).items():
            blocks.setdefault(kind, []).extend(found)
    return blocks


def parse_file(path: Path) -> Mapping[str, Any]:
    """The file as python-hcl2 understands it, without comments.

    Raises:
        PackageMissing: the parser is not installed.
        Refused: the file has mistakes.
        FileNotFoundError: there is none.
    """
    try:
        import hcl2
    except ImportError:
        raise PackageMissing(
            "reading Terraform takes the package python-hcl2: "
            "`python -m pip install -r requirements-dev.txt`"
        ) from None
    text = path.read_text("utf-8")
    try:
        return _parsed(hcl2.loads, text)
    except Exception as error:
        raise Refused(f"{path} is no Terraform that can be read: {error}") from error


@cache
def _parsed(load: Callable[[str], Any], text: str) -> Mapping[str, Any]:
    parsed: Mapping[str, Any] = _plain(load(text))
    return parsed


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            name.strip('"'): _plain(value)
            for name, value in node.items()
            if name not in ("__comments__", "__inline_comments__", "__is_block__")
        }
    return [_plain(each) for each in node] if isinstance(node, list) else node


def evaluate(node: Any, find: Find) -> Any:
    """The value of what a file says.

    Args:
        node: of `parse_file`.
        find: the value that a name such as `var.name` stands for.
    """
    if isinstance(node, list):
        return [evaluate(each, find) for each in node]
    if isinstance(node, dict):
        return {name: evaluate(value, find) for name, value in node.items()}
    if not isinstance(node, str):
        return node
    whole = re.fullmatch(r"\$\{(.*)\}", node, re.DOTALL)
    return _Expression(whole[1] if whole else node, find).value()


class _Expression:
    """Reads an expression from left to right."""

    def __init__(self, text: str, find: Find) -> None:
        self._text = text
        self._words = _WORD.findall(text)
        self._find = find
        self._at = 0

    def value(self) -> Any:
        try:
            value = self._conditional()
        except (IndexError, ValueError):
            return f"<{self._text}>"
        return value if self._at == len(self._words) else f"<{self._text}>"

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _take(self, expected: str = "") -> str:
        word: str = self._words[self._at]
        if expected and word != expected:
            raise ValueError(word)
        self._at += 1
        return word

    def _conditional(self) -> Any:
        left = self._primary()
        if self._peek() == "==":
            self._take()
            left = left == self._primary()
        if self._peek() != "?":
            return left
        self._take()
        chosen = self._conditional()
        self._take(":")
        other = self._conditional()
        return chosen if left else other

    def _primary(self) -> Any:
        word = self._take()
        if word.startswith('"'):
            return _INTERPOLATED.sub(
                lambda match: str(_Expression(match[1], self._find).value()), word[1:-1]
            )
        if re.fullmatch(r"-?\d+(\.\d+)?", word):
            return float(word) if "." in word else int(word)
        if word == "[":
            return list(self._until("]"))
        if word == "{":
            return self._object()
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if self._peek() == "(":
            self._take()
            return self._call(word, list(self._until(")")))
        return self._reference(word)

    def _until(self, end: str) -> Iterator[Any]:
        while self._peek() != end:
            yield self._conditional()
            if self._peek() == ",":
                self._take()
        self._take(end)

    def _object(self) -> Mapping[str, Any]:
        if self._peek() == "for":
            return self._skipped_comprehension()
        made = {}
        while self._peek() != "}":
            name = self._take().strip('"')
            self._take("=")
            made[name] = self._conditional()
            if self._peek() == ",":
                self._take()
        self._take("}")
        return made

    def _skipped_comprehension(self) -> Mapping[str, Any]:
        """What is made in a loop is not known here."""
        depth = 1
        while depth:
            word = self._take()
            depth += (word == "{") - (word == "}")
        return {}

    def _call(self, name: str, arguments: list[Any]) -> Any:
        if name == "tostring":
            (argument,) = arguments
            return str(argument)
        if name == "merge":
            return {key: part[key] for part in arguments if isinstance(part, dict) for key in part}
        return f"<{name}>"

    def _reference(self, name: str) -> Any:
        while self._peek() in (".", "["):
            if self._take() == ".":
                name += "." + self._take()
            else:
                (index,) = self._until("]")
                name += f"[{index}]"
        return self._find(name)
