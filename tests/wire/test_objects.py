"""The types of objects have no field that manifests do not have: they repeat those that clients read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.resources.schemas import DESCRIBED, schema
from reconciler.wire import objects


def fields(name: str, prefix: str = "") -> Iterator[str]:
    """Yield the paths of the fields of a type."""
    for field, kind in getattr(objects, name).__annotations__.items():
        yield f"{prefix}{field}"
        for inner in re.findall(r"\b[A-Z]\w+", kind.__forward_arg__):
            if hasattr(getattr(objects, inner, None), "__total__"):
                yield from fields(inner, f"{prefix}{field}.")


def properties(part: Any, whole: Any) -> dict[str, Any]:
    """Return the fields of a JSON schema, or of what it refers to or lists."""
    if "$ref" in part:
        return properties(whole["$defs"][part["$ref"].rpartition("/")[2]], whole)
    forms = [*part.get("anyOf", ()), *([part["items"]] if "items" in part else [])]
    found: dict[str, Any] = dict(part.get("properties", {}))
    for form in forms:
        found |= properties(form, whole)
    return found


MADE = {"files.sha256"}
"""Fields that are shown in place of others."""


@pytest.mark.parametrize("kind", DESCRIBED)
def test_each_field_of_a_spec_is_one_of_its_manifest(kind: str) -> None:
    whole = schema(kind)
    spec = getattr(objects, kind).__annotations__["spec"].__forward_arg__
    for path in sorted({*fields(spec)} - MADE):
        there = properties(properties(whole, whole)["spec"], whole)
        *before, last = path.split(".")
        for name in before:
            there = properties(there[name], whole)
        assert last in there, f"{kind} has no spec.{path}"
