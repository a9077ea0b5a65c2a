"""The objects of a document: itself, or the items of a ``List`` as ``get -o yaml`` prints it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import parser
from .parser import Node, Tree
from .pieces import Beside, Piece, decode, split
from .plain import as_yaml

LIST = "List"
SET_BY_CONTROLLER = (
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
)
"""Fields of ``metadata`` that are no wishes. As in kubectl, they may be present and are ignored, like ``status``."""
_LIKE_A_LIST = re.compile(r"""\bkind["']?[ \t]*:[ \t]*["']?List\b""")
OURS = "reconciler/v"
"""The prefix of every manifest's version."""


def is_json(file: str) -> bool:
    return file.endswith(".json")


def objects_of(tree: Tree) -> list[Node]:
    """Return the objects of a document; none if it is empty."""
    if tree.root is None:
        return []
    items = tree.root.children.get("items") if _is_list(tree.root) else None
    return [tree.root] if items is None else [items.children[number] for number in range(len(items.value))]


def _is_list(root: Node) -> bool:
    value = root.value
    return isinstance(value, dict) and value.get("kind") == LIST and isinstance(value.get("items"), list)


def ignoring_status(root: Node) -> Node:
    """Return an object without the fields that the controller adds."""
    if not isinstance(root.value, dict):
        return root
    _drop(root, ("status",))
    metadata = root.children.get("metadata")
    if metadata is not None and isinstance(metadata.value, dict):
        _drop(metadata, SET_BY_CONTROLLER)
    return root


def _drop(node: Node, names: Iterable[str]) -> None:
    for name in names:
        node.value.pop(name, None)
        node.children.pop(name, None)


def key_of(value: Any) -> tuple[str, str] | None:
    """Return kind and name of a plain object, without validating it; None if it cannot have a name."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return (str(value.get("kind")), str(metadata.get("name"))) if isinstance(metadata, dict) else None


def objects_in(content: bytes) -> dict[tuple[str, str], tuple[Any, str]]:
    """Return plain value and text of each object in a file of any age, by kind and name. Unreadable parts are
    skipped."""
    text = decode("", content)
    found: dict[tuple[str, str], tuple[Any, str]] = {}
    for piece in split(text) if isinstance(text, str) else ():
        tree = parser.parse("", piece.body)
        for root in objects_of(tree):
            if (key := key_of(root.value)) is not None:
                found[key] = (root.value, piece.body if root is tree.root else as_yaml(root.value))
    return found


def names_in(files: Mapping[str, bytes], kind: str) -> list[str]:
    """Return the names of all objects of a kind: fast, for completion."""
    texts = (content for content in files.values() if not isinstance(content, Beside))
    return [name for text in texts for found, name in objects_in(text) if found == kind]


def pieces_of(file: str, text: str) -> list[Piece]:
    """Return the pieces of a file, one for each object: a ``List`` is taken apart, and JSON is written as YAML."""
    return list(_apart(file, text))


def _apart(file: str, text: str) -> Iterator[Piece]:
    for piece in split(text):
        tree = parser.parse(file, piece.body) if is_json(file) or _LIKE_A_LIST.search(piece.body) else None
        if tree is None or tree.root is None or not (is_json(file) or _is_list(tree.root)):
            yield piece
            continue
        for root in objects_of(tree):
            yield Piece("---\n", as_yaml(ignoring_status(root).value), piece.line, 1)


def as_json(pieces: Iterable[Piece]) -> str:
    """Return the objects of pieces as JSON: one alone, or a ``List``."""
    trees = (parser.parse("", piece.body) for piece in pieces)
    found = [tree.root.value for tree in trees if tree.root is not None]
    body: Any = found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": LIST, "items": found}
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def flaw_of_json(text: str) -> tuple[int, int, str] | None:
    """Return the error of JSON: line and column, from 1, and a text; None if there is none."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.lineno, error.colno, f"not JSON: {error.msg}"
    except RecursionError:
        return 1, 1, "nested too deeply"
    return None


def of_others(file: str, content: bytes) -> bool:
    """Return whether a file is JSON of another tool, or a schema. JSON with our version is a manifest, however wrong it
    is. Every YAML file is one."""
    if not is_json(file):
        return False
    try:
        body = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return OURS.encode() not in content
    items = body.get("items") if isinstance(body, dict) and body.get("kind") == LIST else [body]
    return not any(
        isinstance(each, dict) and str(each.get("apiVersion", "")).startswith(OURS)
        for each in (items if isinstance(items, list) else ())
    )
