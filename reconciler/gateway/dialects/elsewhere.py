"""Paths of other servers and services that clients ask for and that do not exist here, with their owners and what to
use instead. The rows stand in ``elsewhere.txt``, as in ``docs/endpoint.md``, which has the same table. Pure.

The paths are from the references of Ollama (``docs/api.md``), LM Studio (REST API v0 and v1), llama.cpp
(``tools/server/README.md``), TGI (``docs/openapi.json``), vLLM (``entrypoints/``), SGLang, OpenAI and Anthropic.
"""

from __future__ import annotations

import dataclasses

from .rows import rows_of


@dataclasses.dataclass(frozen=True, slots=True)
class Elsewhere:
    """Paths with the same answer, and all paths below them."""

    whose: str
    paths: tuple[str, ...]
    instead: str


ROWS = tuple(
    Elsewhere(whose, tuple(paths.replace("`", "").split(", ")), instead)
    for whose, paths, instead in rows_of("elsewhere.txt")
)
"""No path may stand in two rows, and no path of this endpoint in any."""


def found(path: str) -> Elsewhere | None:
    """Return the row of a path, or of a path above it."""
    rows = [(name, row) for row in ROWS for name in row.paths if path == name or path.startswith(name + "/")]
    return max(rows, key=lambda each: len(each[0]))[1] if rows else None


def is_named(path: str) -> bool:
    """Return whether a row has the path itself."""
    return any(path in row.paths for row in ROWS)
