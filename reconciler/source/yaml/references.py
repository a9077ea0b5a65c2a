"""Checks manifests by themselves, and finds names of objects that none of them defines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reconciler.errors import InvalidManifests, Problem
from reconciler.resources import Gateway, Manifest, Model, ModelDeployment, Node
from reconciler.resources.api_key import ApiKey

from .documents import Document, load
from .field_errors import dotted, suggest
from .parser import parse

Reference = tuple[tuple[str | int, ...], str, str]
"""A field, the kind that it names, and the name."""


def checked(files: Mapping[str, bytes], references: bool | None = None) -> tuple[Document, ...]:
    """Return the manifests of files. Raises ``InvalidManifests`` with every mistake.

    They count as a whole cluster if any of them is a Node. ``references``: whether each named object must be among
    these manifests; by default, if they are a whole cluster.
    """
    documents = load(files, part=True)
    whole = any(document.key[0] == "Node" for document in documents)
    if whole:
        documents = load(files)
    if (whole if references is None else references) and (problems := dangling(documents)):
        raise InvalidManifests(problems)
    return documents


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
    return Problem(document.file, line, column, dotted(path), f'there is no {kind} "{name}"; {advice}')


def _place(document: Document, path: tuple[str | int, ...]) -> tuple[int, int]:
    tree = parse(document.file, document.text, 1, 1)
    node = tree.root
    assert node is not None, "it was parsed before"
    for step in path:
        node = node.children[step]
    return node.line + document.line - tree.first_line, node.column
