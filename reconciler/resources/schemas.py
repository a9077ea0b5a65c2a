"""Builds the JSON Schemas of the kinds, for editors and for `schemas/`."""

from __future__ import annotations

import json
from typing import Any

from .base import Manifest
from .kinds import KINDS
from .operation import Operation
from .registry import API_VERSION

DIALECT = "https://json-schema.org/draft/2020-12/schema"


DESCRIBED: dict[str, type[Manifest]] = {**KINDS, Operation.__name__: Operation}
"""The classes that have a schema: the kinds of manifests, and the kind of operations."""


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of one kind. Raises ``KeyError`` for an unknown kind."""
    body = DESCRIBED[kind].model_json_schema(by_alias=True)
    return {"$schema": DIALECT, **body, "title": f"{kind} ({API_VERSION})"}


def any_kind() -> dict[str, Any]:
    """Return a schema that accepts every kind and chooses by the ``kind`` field. Manifests refer to this one."""
    definitions: dict[str, Any] = {}
    branches = []
    for kind in KINDS:
        body = KINDS[kind].model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
        definitions.update(body.pop("$defs", {}))
        definitions[kind] = body
        branches.append(
            {
                "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/{kind}"},
            }
        )
    return {
        "$schema": DIALECT,
        "title": f"Any kind of {API_VERSION}",
        "type": "object",
        "properties": {"apiVersion": {"const": API_VERSION}, "kind": {"enum": list(KINDS)}},
        "required": ["apiVersion", "kind"],
        "allOf": branches,
        "$defs": definitions,
    }


def files() -> dict[str, str]:
    """Return the exact contents of ``schemas/``, by file name."""
    bodies = {"manifest.json": any_kind(), **{f"{kind}.json": schema(kind) for kind in DESCRIBED}}
    return {name: json.dumps(body, indent=2, ensure_ascii=False) + "\n" for name, body in bodies.items()}
