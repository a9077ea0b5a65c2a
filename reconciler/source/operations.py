"""Reads and writes the files of the branch ``operations``: one small YAML file for each verb and target."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from reconciler.errors import InvalidManifests, Problem
from reconciler.resources.operation import KIND, Operation, operation_name

from .yaml.documents import Document, load

KINDS = {KIND: Operation}


def load_operations(files: Mapping[str, bytes]) -> tuple[Operation, ...]:
    """Return the operations of all files, sorted by name. Raises ``InvalidManifests`` with every problem."""
    documents = load(files, kinds=KINDS)
    problems = tuple(problem for document in documents for problem in _misplaced(document))
    if problems:
        raise InvalidManifests(problems)
    return tuple(document.manifest for document in documents if isinstance(document.manifest, Operation))


def _misplaced(document: Document) -> list[Problem]:
    """Return the problems of an operation's name, and of its file's name."""
    operation = document.manifest
    assert isinstance(operation, Operation)
    target = operation.spec.target
    name = operation_name(operation.spec.verb, target.kind, target.name)
    if operation.metadata.name != name:
        text = f'expected "{name}" for {operation.spec.verb} of {target}, got "{operation.metadata.name}"'
        return [Problem(document.file, document.line, 1, "metadata.name", text)]
    if document.file != file_of(name):
        text = f"expected this operation in the file {file_of(name)}"
        return [Problem(document.file, document.line, 1, "", text)]
    return []


def file_of(name: str) -> str:
    return f"{name}.yaml"


def text_of(operation: Operation) -> bytes:
    body = operation.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    text: str = yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=100)
    return text.encode()
