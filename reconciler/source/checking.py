"""Checks manifests by themselves, without a cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.errors import InvalidManifests

from .yaml.documents import Document, load
from .yaml.references import dangling


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
