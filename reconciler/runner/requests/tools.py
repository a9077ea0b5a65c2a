"""The tools of a request in the shape that the model's chat template takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Tool = Mapping[str, Any]

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_NESTED = ("items", "not", "if", "then", "else", "contains", "propertyNames")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")


def complete(tool: Tool) -> Tool:
    """Return a tool with parameters: none means an empty object, as OpenAI has it."""
    function = tool["function"]
    if function.get("parameters") is not None:
        return tool
    return {**tool, "function": {**function, "parameters": NO_PARAMETERS}}


def described(tool: Tool) -> Tool:
    """Return a tool with a description, which may be empty."""
    function = tool["function"]
    if isinstance(function.get("description"), str):
        return tool
    return {**tool, "function": {"name": function.get("name"), "description": "", **_without_null(function)}}


def plain(tool: Tool) -> Tool:
    """Return a tool whose schemas say the same in the words that most templates know."""
    function = tool["function"]
    schema = _plain(function["parameters"])
    schema = {"type": "object", "properties": {}, **schema}
    return {**tool, "function": {**function, "parameters": schema}}


def flat(tool: Tool) -> Tool:
    """Return a tool with its schema as JSON in the description, and of it only the names and types of the parameters."""
    function = tool["function"]
    schema = function["parameters"]
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    named = properties if isinstance(properties, Mapping) else {}
    shown = json.dumps(schema, ensure_ascii=False)
    text = f"{function.get('description') or ''}\nParameters as a JSON Schema: {shown}".strip()
    parameters = {
        "type": "object",
        "properties": {name: {"type": _kind(each), "description": ""} for name, each in named.items()},
        "required": [],
    }
    return {
        **tool,
        "function": {"name": function.get("name"), "description": text, "parameters": parameters},
    }


def _kind(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind if isinstance(kind, str) and kind in _TYPES else "string"


def _without_null(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _plain(schema: Any) -> dict[str, Any]:
    """Return a schema without booleans for schemas, lists of types, and null where something else belongs."""
    if not isinstance(schema, Mapping):
        return {"not": {}} if schema is False else {}
    made = _without_null(schema)
    made |= {name: schema[name] for name in ("default", "const") if name in schema}
    if isinstance(made.get("additionalProperties"), Mapping):
        made["additionalProperties"] = _plain(made["additionalProperties"])
    if isinstance(made.get("items"), Sequence):
        made["items"] = {"anyOf": made["items"]}
    for name in _NESTED:
        if name in made:
            made[name] = _plain(made[name])
    for name in _LISTED:
        if isinstance(made.get(name), Sequence):
            made[name] = [_plain(each) for each in made[name]]
    for name in _NAMED:
        if isinstance(made.get(name), Mapping):
            made[name] = {key: _plain(each) for key, each in made[name].items()}
    kinds = made.get("type")
    if isinstance(kinds, str) and kinds not in _TYPES:
        made.pop("type")
        return {"enum": [None], **made} if kinds == "null" else made
    if isinstance(kinds, Sequence) and not isinstance(kinds, str):
        made.pop("type")
        real = [kind for kind in kinds if kind in _TYPES]
        if len(real) == 1:
            return {"type": real[0], **made, **({"nullable": True} if len(kinds) > 1 else {})}
        made.setdefault("anyOf", [_plain({"type": kind}) for kind in kinds])
    return made
