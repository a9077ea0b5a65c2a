"""The values of arguments that are not written as JSON. The tool's schema gives their types. Pure.

If a schema allows text and another type, a value has the other type if it is JSON of that type, and is text
otherwise. vLLM (``tool_parsers/utils.py``, ``coerce_to_schema_type``) and llama.cpp (``tests/test-chat.cpp``) read
values in this way.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Mapping, Sequence, Set
from typing import Any

_TEXT_TYPES = frozenset({"string", "str", "text", "enum"})
_WORDS = {"true": True, "false": False, "null": None, "none": None}
TEXT = frozenset({"string"})
_FIRSTS: Mapping[str, str] = {
    "null": "n",
    "boolean": "tf",
    "integer": "-0123456789",
    "number": "-0123456789",
    "object": "{",
    "array": "[",
}
"""The characters that JSON of a type begins with."""


def kinds_of(schema: Any) -> Set[str]:
    """Return the JSON types that a schema allows; ``string`` for all kinds of text, and if the schema declares no
    type."""
    found = _declared(schema)
    return TEXT if found is None else found


def _declared(schema: Any) -> Set[str] | None:
    if not isinstance(schema, Mapping):
        return None
    found = _by_type(schema)
    return found | {"null"} if found is not None and schema.get("nullable") is True else found


def _by_type(schema: Mapping[str, Any]) -> Set[str] | None:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return _kinds([kinds])
    if isinstance(kinds, Sequence):
        return _kinds(kinds)
    if isinstance(schema.get("allOf"), list):
        parts = [found for each in schema["allOf"] if (found := _declared(each)) is not None]
        return frozenset.intersection(*map(frozenset, parts)) if parts else None
    choices = next((schema[key] for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list)), None)
    if choices is not None:
        several = [found for each in choices if (found := _declared(each)) is not None]
        return frozenset[str]().union(*several) if several else None
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return frozenset(_kind(value) for value in values)
    if "properties" in schema:
        return frozenset({"object"})
    return frozenset({"array"}) if "items" in schema else None


def _kinds(given: Sequence[Any]) -> Set[str]:
    return frozenset("string" if str(kind).lower() in _TEXT_TYPES else str(kind).lower() for kind in given)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def takes_text(schema: Any) -> bool:
    """Return whether a schema allows text, as one without a type does."""
    return "string" in kinds_of(schema)


def is_plain_text(schema: Any) -> bool:
    """Return whether a schema declares text, or other values that have no values in them."""
    found = _declared(schema)
    return found is not None and "string" in found and not found & {"object", "array"}


def begins_other(first: str, schema: Any) -> bool:
    """Return whether a value that may be text may be something else, by its first character."""
    others = kinds_of(schema) - TEXT
    return bool(others) and (first.isspace() or any(first in _FIRSTS.get(kind, "") for kind in others))


def typed(written: str, schema: Any) -> str:
    """Return the JSON of a value with a type of its schema."""
    kinds = kinds_of(schema)
    if "string" not in kinds:
        return value_json(written)
    return written.strip() if kinds != TEXT and _is_other(written, kinds, schema) else _quoted(written)


def _is_other(written: str, kinds: Set[str], schema: Mapping[str, Any]) -> bool:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and written in values:
        return False
    try:
        found = _strictly(written)
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    kind = _kind(found)
    return kind != "string" and (kind in kinds or (kind == "integer" and "number" in kinds))


def value_json(written: str) -> str:
    """Return the JSON of a value that is not text: JSON or Python as the model wrote it, else text all the same.

    vLLM does so in ``tool_parsers/qwen3coder_tool_parser.py``, and mlx-lm in ``tool_parsers/qwen3_coder.py``.
    """
    bare = written.strip()
    if bare.lower() in _WORDS:
        return json.dumps(_WORDS[bare.lower()])
    for parse in (_strictly, literal_eval):
        try:
            found = parse(bare)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
        try:
            return json.dumps(found, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError):
            if parse is _strictly:
                return bare  # it has a number that floats have not
    return _quoted(written)


def unquoted(written: str) -> str:
    """Return the JSON of a text that may be written as JSON already."""
    try:
        found = _strictly(written)
    except (ValueError, RecursionError):
        return _quoted(written)
    return _quoted(found if isinstance(found, str) else written)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _strictly(written: str) -> Any:
    """Return the value of a JSON text. Raises ``ValueError``, also for words that only Python reads."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(written, parse_constant=refuse)
