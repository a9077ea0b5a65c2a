"""Reads kinds and names of manifests without validating them: fast, for completion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.source.yaml import parser

from . import pieces
from .objects import objects_of


def named(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield kind and name of every document that has both; unreadable documents are skipped."""
    for file, content in files.items():
        text = pieces.decode(file, content)
        for piece in pieces.split(text) if isinstance(text, str) else ():
            for root in objects_of(parser.parse(file, piece.body)):
                value = root.value
                if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
                    yield str(value.get("kind")), str(value["metadata"].get("name"))
