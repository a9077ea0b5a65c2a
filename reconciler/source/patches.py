"""Patches of plain values: JSON Merge Patch (RFC 7396) and JSON Patch (RFC 6902). Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from reconciler.errors import Invalid

from .yaml.fields import REMOVED

OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")
NEEDS = {"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from"}
OPERATIONS_MAX = 1000


def merged(plain: Any, patch: Any) -> Any:
    """Return a value with a merge patch applied: None removes a field, lists are replaced whole."""
    if not isinstance(patch, dict):
        return patch
    result = dict(plain) if isinstance(plain, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def patched(plain: Any, operations: Any) -> Any:
    """Return a value with the operations of a JSON patch applied, all or none. Raises ``Invalid``."""
    if not isinstance(operations, list) or len(operations) > OPERATIONS_MAX:
        raise Invalid(
            f"expected a list of at most {OPERATIONS_MAX} operations, such as "
            '[{"op": "replace", "path": "/spec/replicas", "value": 2}]'
        )
    root = copy.deepcopy(plain)
    for number, operation in enumerate(operations):
        try:
            root = _applied(root, operation)
        except Invalid as error:
            raise Invalid(f"operation {number} ({operation!r:.80}): {error}") from None
    return root


def changes(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the smallest set of changed fields from one value to the other, each as path and new value or
    ``REMOVED``."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if before != after:
            yield path, after
        return
    for name in {**before, **after}:
        if name not in after:
            yield (*path, name), REMOVED
        elif name not in before:
            yield (*path, name), after[name]
        else:
            yield from changes(before[name], after[name], (*path, name))


# --- one operation ---------------------------------------------------------------------------------


def _applied(root: Any, operation: Any) -> Any:
    kind = operation.get("op") if isinstance(operation, dict) else None
    if kind not in OPERATIONS:
        raise Invalid(f'expected "op" to be one of {", ".join(OPERATIONS)}')
    for name in ("path", *([NEEDS[kind]] if kind in NEEDS else [])):
        if name not in operation:
            raise Invalid(f'"{name}" is missing')
    path = _steps(operation["path"])
    match kind:
        case "test":
            if _at(root, path) != operation["value"]:
                raise Invalid(f"the test failed: the value is {_at(root, path)!r:.80}")
            return root
        case "remove":
            return _without(root, path)
        case "add":
            return _with(root, path, copy.deepcopy(operation["value"]))
        case "replace":
            _at(root, path)
            return _with(_without(root, path) if path else root, path, copy.deepcopy(operation["value"]))
        case _:
            value = copy.deepcopy(_at(root, _steps(operation["from"])))
            if kind == "move":
                root = _without(root, _steps(operation["from"]))
            return _with(root, path, value)


def _steps(pointer: Any) -> list[str]:
    """Return the steps of a JSON pointer (RFC 6901)."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise Invalid(f"expected a path such as /spec/replicas, got {pointer!r:.80}")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _at(root: Any, path: list[str]) -> Any:
    for depth, step in enumerate(path):
        if isinstance(root, dict) and step in root:
            root = root[step]
        elif isinstance(root, list):
            root = root[_index(root, step, len(root) - 1)]
        else:
            missing = "/".join(path[: depth + 1])
            raise Invalid(f"there is no /{missing}; what there is: reconciler get KIND/NAME -o yaml")
    return root


def _index(items: list[Any], step: str, last: int) -> int:
    number = int(step) if step.isdecimal() and (step == "0" or step[0] != "0") else -1
    if not 0 <= number <= last:
        raise Invalid(f'expected a place from 0 to {last} in a list of {len(items)}, got "{step}"')
    return number


def _with(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _at(root, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else _index(parent, path[-1], len(parent)), value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise Invalid(f"/{'/'.join(path[:-1])} has no fields")
    return root


def _without(root: Any, path: list[str]) -> Any:
    if not path:
        raise Invalid("the whole object cannot be removed; use: reconciler delete KIND/NAME")
    _at(root, path)
    parent = _at(root, path[:-1])
    del parent[_index(parent, path[-1], len(parent) - 1) if isinstance(parent, list) else path[-1]]
    return root
