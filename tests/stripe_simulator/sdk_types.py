"""Holds JSON against the typed classes of the installed stripe package."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import stripe

PACKAGE = Path(stripe.__file__).parent
ANYTHING = {"Any", "object"}
SCALARS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
}


@cache
def class_of(module: str, *path: str) -> ast.ClassDef:
    """Return the class at a path of nested names in a module of the package."""
    body = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8")).body
    found: ast.ClassDef | None = None
    for name in path:
        found = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == name)
        body = found.body
    assert found is not None
    return found


def fields_of(declared: ast.ClassDef) -> dict[str, ast.expr]:
    """Return the annotations of a class by field name."""
    return {
        node.target.id: node.annotation
        for node in declared.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id != "OBJECT_NAME"
    }


def mismatches(shown: object, declared: ast.ClassDef, where: str) -> Iterator[str]:
    """Yield what is wrong with an object that should be of a declared class."""
    if not isinstance(shown, dict):
        yield f"{where}: not an object"
        return
    fields = fields_of(declared)
    for name in shown.keys() - fields.keys():
        yield f"{where}.{name}: unknown to {declared.name}"
    for name, annotation in fields.items():
        if name not in shown:
            if not _is_optional(annotation):
                yield f"{where}.{name}: missing"
        else:
            yield from _wrong(shown[name], annotation, declared, f"{where}.{name}")


def _wrong(
    value: object, annotation: ast.expr, declared: ast.ClassDef, where: str
) -> Iterator[str]:
    if isinstance(annotation, ast.Constant):
        annotation = ast.parse(str(annotation.value), mode="eval").body
    if isinstance(annotation, ast.Subscript):
        yield from _wrong_generic(value, annotation, declared, where)
        return
    name = ast.unparse(annotation)
    nested = [
        node for node in declared.body if isinstance(node, ast.ClassDef) and node.name == name
    ]
    if nested:
        yield from mismatches(value, nested[0], where)
    elif name not in ANYTHING and type(value) not in SCALARS.get(name, (dict,)):
        yield f"{where}: {value!r} is no {name}"


def _wrong_generic(
    value: object, annotation: ast.Subscript, declared: ast.ClassDef, where: str
) -> Iterator[str]:
    generic, inner = ast.unparse(annotation.value), annotation.slice
    if generic == "Optional":
        if value is not None:
            yield from _wrong(value, inner, declared, where)
    elif generic == "Union":
        # A choice is right when one of its members is.
        members = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        verdicts = [list(_wrong(value, member, declared, where)) for member in members]
        yield from min(verdicts, key=len)
    elif generic == "List":
        for index, item in enumerate(value if isinstance(value, list) else [None]):
            yield from _wrong(item, inner, declared, f"{where}[{index}]")
    elif not _fits_generic(value, generic, inner):
        yield f"{where}: {value!r} is no {ast.unparse(annotation)}"


def _fits_generic(value: object, generic: str, inner: ast.expr) -> bool:
    if generic == "Literal":
        members = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return value in [ast.literal_eval(member) for member in members]
    if generic == "ExpandableField":
        return isinstance(value, str | dict)
    return isinstance(value, dict)


def _is_optional(annotation: ast.expr) -> bool:
    return isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Optional"
