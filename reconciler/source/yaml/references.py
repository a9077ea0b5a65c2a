"""Finds names of objects that no manifest defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.errors import Problem
from reconciler.resources import Gateway, Manifest, Model, ModelDeployment, Node
from reconciler.resources.api_key import ApiKey

from .documents import Document
from .field_errors import suggest
from .parser import parse

Reference = tuple[tuple[str | int, ...], str, str]
"""A field, the kind that it names, and the name."""


def dangling(documents: Iterable[Document]) -> tuple[Problem, ...]:
    """Return a problem for each name of an object that no document has, with the nearest existing name."""
    documents = tuple(documents)
    there = _names(document.manifest for document in documents)
    return tuple(
        _problem(document, path, kind, name, there[kind])
        for document in documents
        for path, kind, name in references(document.manifest)
        if name not in there[kind]
    )


def references(manifest: Manifest) -> Iterator[Reference]:
    """Yield the references of a manifest. References of Fabrics are checked when Fabrics are compared."""
    if isinstance(manifest, ModelDeployment):
        yield ("spec", "model"), "Model", manifest.spec.model
    elif isinstance(manifest, Gateway):
        for index, name in enumerate(manifest.spec.nodes):
            yield ("spec", "nodes", index), "Node", name
    elif isinstance(manifest, ApiKey):
        for index, name in enumerate(manifest.spec.models):
            yield ("spec", "models", index), "ModelDeployment", name


def _names(manifests: Iterable[Manifest]) -> dict[str, set[str]]:
    there: dict[str, set[str]] = {"Model": set(), "Node": set(), "ModelDeployment": set()}
    for manifest in manifests:
        if isinstance(manifest, Model | Node | ModelDeployment):
            there[manifest.kind].add(manifest.metadata.name)
    return there


def _problem(
    document: Document, path: tuple[str | int, ...], kind: str, name: str, there: set[str]
) -> Problem:
    nearest = suggest(name, sorted(there))
    advice = f'did you mean "{nearest}"?' if nearest else f"add a {kind} of this name"
    line, column = _place(document, path)
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return Problem(
        document.file, line, column, dotted.removeprefix("."), f'there is no {kind} "{name}"; {advice}'
    )


def _place(document: Document, path: tuple[str | int, ...]) -> tuple[int, int]:
    tree = parse(document.file, document.text, 1, 1)
    node = tree.root
    assert node is not None, "it was parsed before"
    for step in path:
        node = node.children[step]
    return node.line + document.line - tree.first_line, node.column
