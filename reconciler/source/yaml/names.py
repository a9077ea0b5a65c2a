"""Kinds and names of manifests, without looking at what else they say: quick, for what is only offered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.source.yaml import parser

from . import pieces


def named(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Kind and name of every document that has both; what cannot be read is left out."""
    for file, content in files.items():
        text = pieces.decode(file, content)
        for piece in pieces.split(text) if isinstance(text, str) else ():
            root = parser.parse(file, piece.body).root
            value = root.value if root is not None else None
            if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
                yield str(value.get("kind")), str(value["metadata"].get("name"))
