"""The fields of the kinds, from the models that check them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reconciler.errors import Refused

from .app import nearest
from .shipped import schema_of

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    schema: Schema
    """The field's own schema, with a reference resolved."""
    required: bool
    definitions: dict[str, Schema]

    def fields(self) -> Iterator[Field]:
        """Yield the fields within it; if it has several forms, the fields of the form that is a mapping."""
        body = _mapping(self.schema)
        for name, schema in body.get("properties", {}).items():
            yield Field(
                name, _resolved(schema, self.definitions), name in body.get("required", ()), self.definitions
            )

    @property
    def type(self) -> str:
        """Return the type as kubectl shows it, or by its own name: `[]string`, `Object`, `duration`."""
        return _type(self.schema)

    @property
    def description(self) -> str:
        return str(self.schema["description"])

    def facts(self) -> list[str]:
        """Return the bounds of its value, the default and an example."""
        found = [
            f"{word}: {self.schema[key]}"
            for key, word in _BOUNDS
            if key in self.schema and not isinstance(self.schema[key], dict | list)
        ]
        if "enum" in self.schema:
            found.append(f"one of: {', '.join(map(str, self.schema['enum']))}")
        if self.schema.get("default") not in (None, {}, [], "") and not _mapping(self.schema):
            default = self.schema["default"]
            found.append(f"default: {str(default).lower() if isinstance(default, bool) else default}")
        elif self.schema.get("examples"):
            found.append(f"such as: {', '.join(map(str, self.schema['examples']))}")
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the field, and everything within it, as plain data."""
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "description": self.description,
            "facts": self.facts(),
            "fields": [field.as_json() for field in self.fields()],
        }


_BOUNDS = (
    ("const", "always"), ("minimum", "at least"), ("maximum", "at most"),
    ("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than"),
    ("minLength", "characters at least"), ("maxLength", "characters at most"),
)  # fmt: skip


def _resolved(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return a schema with its reference resolved; keywords next to the reference take precedence."""
    reference = schema.get("$ref")
    if reference is None:
        kept = [form for form in schema.get("anyOf", ()) if form.get("type") != "null"]
        if len(kept) == 1:
            rest = {key: value for key, value in schema.items() if key != "anyOf"}
            return _resolved({**kept[0], **rest}, definitions)
        if kept:
            return {**schema, "anyOf": [_resolved(form, definitions) for form in kept]}
        return {**schema, "items": _resolved(schema["items"], definitions)} if "items" in schema else schema
    target = definitions[reference.rpartition("/")[2]]
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


def _mapping(schema: Schema) -> Schema:
    """Return the form of a schema, or of each item of a list, that has fields; empty if there is none."""
    item = schema.get("items", schema)
    forms = schema.get("anyOf") or item.get("anyOf", [item])
    return next((form for form in forms if "properties" in form), {})


def _type(schema: Schema) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(form) for form in schema["anyOf"]))
    match schema.get("type"):
        case "array":
            return f"[]{_type(schema.get('items', {}))}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"map[string]{_type(schema['additionalProperties'])}"
        case "object":
            return "Object"
        case other:
            return str(schema.get("x-type") or other or "any")


def field_at(kind: str, steps: list[str]) -> Field:
    """Return the field at a path, or the kind itself if the path is empty. Raises ``Refused``."""
    body = json.loads(schema_of(kind).read_text(encoding="utf-8"))
    field = Field(kind, body, True, body.get("$defs", {}))
    for at, step in enumerate(steps):
        within = {inner.name: inner for inner in field.fields()}
        if step not in within:
            where = ".".join([kind.lower(), *steps[:at]])
            advice = (
                nearest(step, list(within)) if within else f"; it has no fields, its type is {field.type}"
            )
            raise Refused("NotFound", f'field "{step}" does not exist in {where}{advice}')
        field = within[step]
    return field
