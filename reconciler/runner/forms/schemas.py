"""JSON Schemas that an answer is held to: checked before they are compiled; an error has the path. Pure.

Of draft 2020-12, llguidance enforces a part and refuses most of the rest (``docs/json_schema.md`` of llguidance
1.9.1). The parts that it takes and does not enforce are refused here: ``docs/endpoint.md`` has the table, and a test
holds it against the JSON Schema Test Suite.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

BYTES_MAX = 256 * 1024
TOOLS_BYTES_MAX = 4 * BYTES_MAX
"""The same for the schemas of all tools together."""
DEPTH_MAX = 64
"""Levels of schemas within schemas."""
COUNT_MAX = 4000
"""Schemas within one. Of so many arguments that may be left out, llguidance takes five seconds to make a grammar."""
TRIALS_MAX = 200
"""Schemas that are compiled to find the one that cannot be."""

UNENFORCED = [
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "propertyNames",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
    "$recursiveRef",
]
"""Keywords that restrict values in ways that no grammar here holds them to."""
IDLE: Mapping[str, tuple[Any, ...]] = {
    "uniqueItems": (False,),
    "unevaluatedItems": (True, {}),
    "unevaluatedProperties": (True, {}),
    "propertyNames": (True, {}, {"type": "string"}),
    "minContains": (0,),
    "not": (False,),
    "dependentSchemas": ({},),
    "dependentRequired": ({},),
    "dependencies": ({},),
}
"""Values with which they restrict nothing."""
COMPILED = frozenset(["duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"])
"""Formats that llguidance enforces. It takes some dates and times that do not exist, such as the 29th of February in any
year, so dates and times are patterns here. An enforced format may allow only a part of the strings that have it."""
_YEAR = "[12][0-9]{3}"
_LEAP = "([12][0-9](0[48]|[2468][048]|[13579][26])|(12|16|20|24|28)00)"
_DATE = (
    f"({_YEAR}-(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|{_YEAR}-(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    f"{_YEAR}-02-(0[1-9]|1[0-9]|2[0-8])|{_LEAP}-02-29)"
)
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
PATTERNS: Mapping[str, str] = {"date": f"^{_DATE}$", "time": f"^{_TIME}$", "date-time": f"^{_DATE}T{_TIME}$"}
KNOWN = COMPILED | PATTERNS.keys()
_PATTERN = re.compile(r"\\[1-9]|\\k<|\\.|\[(?:\\.|[^\]\\])*\]|\(\?<?[=!]|.", re.DOTALL)
_CONSTRUCTS = {"(?=": "a look-ahead", "(?!": "a look-ahead", "(?<=": "a look-behind", "(?<!": "a look-behind"}
_COUNTS = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"]
_NAMED = ("properties", "patternProperties", "$defs", "definitions")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "additionalItems")
_COMBINING = frozenset(["allOf", "anyOf", "oneOf", "$ref", "patternProperties", "additionalProperties"])


class Inexpressible(ValueError):
    """A form that answers cannot be held to. ``path`` is of the request's field that is the reason."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


def parsed(text: str, path: str) -> Schema:
    """Return a schema that is checked and ready to be compiled. Raises ``Inexpressible``."""
    if len(text) > BYTES_MAX:
        raise Inexpressible(path, f"the schema has more than {BYTES_MAX} characters")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Inexpressible(path, f"the schema is no JSON: {error!s:.200}") from None
    return ready(schema, path)


def ready(schema: Any, path: str) -> Schema:
    """Return a schema that is checked and ready to be compiled. Raises ``Inexpressible``.

    It is another one: objects that list their properties, and say nothing of others, have no others. All that satisfies
    it satisfies the given one.
    """
    if schema is True:
        return {}
    if schema is False:
        raise Inexpressible(path, "nothing satisfies this schema")
    if not isinstance(schema, dict):
        raise Inexpressible(path, "a schema is an object")
    for count, (where, found, depth) in enumerate(_within(schema, path, 0)):
        if count >= COUNT_MAX or depth > DEPTH_MAX:
            raise Inexpressible(path, f"more than {COUNT_MAX} schemas in one, or {DEPTH_MAX} in one another")
        _check(found, where)
    closes = not any(_combines(found) for _, found, _ in _within(schema, path, 0))
    made: Schema = _rewritten(schema, closes)
    return made


def _within(schema: Any, path: str, depth: int) -> Iterator[tuple[str, Schema, int]]:
    """Yield a schema and all within it, with their paths and depths."""
    left = [(path, schema, depth)]
    while left:
        where, found, level = left.pop()
        if isinstance(found, dict):
            yield where, found, level
            if level <= DEPTH_MAX:
                left.extend((inner, child, level + 1) for inner, child in reversed(children(found, where)))


def children(schema: Schema, path: str) -> list[tuple[str, Any]]:
    """Return the schemas right within one, with their paths."""
    found: list[tuple[str, Any]] = []
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            found += [(f"{path}.{key}.{name}", child) for name, child in value.items()]
        elif (key in _LISTED or key == "items") and isinstance(value, list):
            found += [(f"{path}.{key}[{index}]", child) for index, child in enumerate(value)]
        elif key in _SINGLE:
            found.append((f"{path}.{key}", value))
    return found


def _check(schema: Schema, path: str) -> None:
    for key in UNENFORCED:
        if key in schema and not _is_idle(key, schema[key]):
            raise Inexpressible(f"{path}.{key}", f"answers cannot be held to {key}")
    form = schema.get("format")
    if form is not None and may_be_text(schema) and not (isinstance(form, str) and form in KNOWN):
        others = ", ".join(sorted(KNOWN))
        raise Inexpressible(
            f"{path}.format", f"answers cannot be held to the format {form!r:.40}, but to {others}"
        )
    construct = unmatched(schema)
    if construct and form is None:
        what = _CONSTRUCTS.get(construct, "a reference to a group")
        raise Inexpressible(
            f"{path}.pattern", f"answers cannot be held to a pattern with {construct}, which is {what}"
        )
    least = schema.get("minProperties")
    required = schema.get("required")
    known = len(required) if isinstance(required, list) else 0
    # A key may come twice where any may come, and then counts once.
    if isinstance(least, (int, float)) and least > max(1, known):
        raise Inexpressible(
            f"{path}.minProperties", "answers cannot be held to more properties than are required"
        )


def unmatched(schema: Schema) -> str:
    """Return the construct in the pattern of a schema that no grammar has, such as ``(?!``; empty if there is none. Beside a
    format, which is enforced, such a pattern is dropped."""
    pattern = schema.get("pattern")
    if not isinstance(pattern, str) or not may_be_text(schema):
        return ""
    tokens = (found[0] for found in _PATTERN.finditer(pattern))
    return next((each for each in tokens if each in _CONSTRUCTS or re.fullmatch(r"\\[1-9]|\\k<", each)), "")


def dropped_patterns(schema: Any) -> int:
    """Return how many patterns of a schema are dropped because a format says the same."""
    return sum("format" in found and bool(unmatched(found)) for _, found, _ in _within(schema, "", 0))


def _is_idle(key: str, value: Any) -> bool:
    return any(type(value) is type(idle) and value == idle for idle in IDLE.get(key, ()))


def _combines(schema: Schema) -> bool:
    """Return whether properties of this schema may be listed in another one."""
    if schema.get("allOf"):
        return True
    others = {key for key in ("anyOf", "oneOf", "$ref") if key in schema}
    return len(others) > 1 or bool(others and {"properties", "required"} & schema.keys())


def _rewritten(schema: Any, closes: bool) -> Any:
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in UNENFORCED or key == "x-guidance":
            continue
        if key in _NAMED and isinstance(value, dict):
            made[key] = {name: _rewritten(child, closes) for name, child in value.items()}
        elif (key in _LISTED or key == "items") and isinstance(value, list):
            made[key] = [_rewritten(child, closes) for child in value]
        elif key in _SINGLE:
            made[key] = _rewritten(value, closes)
        elif key in _COUNTS and isinstance(value, float) and value.is_integer():
            made[key] = int(value)
        else:
            made[key] = value
    if closes and _lists_all(made):
        made["additionalProperties"] = False
    return _with_format(made) if "format" in made else made


def counted(schema: Schema, key: str, path: str) -> int | None:
    """Return a count that a schema gives; None if it gives none. Raises ``Inexpressible``."""
    value = schema.get(key)
    if value is not None and (type(value) is not int or value < 0):
        raise Inexpressible(f"{path}.{key}", f"{key} is {value!r:.40}, expected a number from 0 on")
    return value


def may_be_text(schema: Schema) -> bool:
    """Return whether a schema allows strings, as far as its own type says."""
    kinds = schema.get("type", "string")
    return "string" in (kinds if isinstance(kinds, list) else [kinds])


def _with_format(schema: dict[str, Any]) -> Schema:
    """Return a schema without a format that is about no strings, or that is a pattern here."""
    if unmatched(schema):
        del schema["pattern"]
    form = schema.pop("format")
    if not may_be_text(schema):
        return schema
    if form not in PATTERNS:
        return {**schema, "format": form}
    if "pattern" not in schema:
        return {**schema, "pattern": PATTERNS[form]}
    return {**schema, "allOf": [*schema.get("allOf", ()), {"pattern": PATTERNS[form]}]}


def _lists_all(schema: Schema) -> bool:
    properties, required = schema.get("properties"), schema.get("required", [])
    return (
        isinstance(properties, dict)
        and bool(properties)
        and isinstance(required, list)
        and set(map(str, required)) <= properties.keys()
        and not _COMBINING & schema.keys()
    )


def arguments(parameters: Any, path: str) -> Schema:
    """Return the schema of a tool's arguments, which are an object. Raises ``Inexpressible``."""
    schema = ready({} if parameters is None else parameters, path)
    if schema.get("type", "object") != "object":
        raise Inexpressible(f"{path}.type", "arguments are an object")
    none = not schema.get("properties") and not _COMBINING & schema.keys()
    return {**schema, "type": "object", **({"additionalProperties": False} if none else {})}


def culprit(schema: Schema, path: str, refuses: Callable[[Schema], str]) -> tuple[str, str]:
    """Return the path of the schema within one that cannot be compiled, and why. ``refuses`` returns the reason, or nothing."""
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    why, trials = refuses(schema), 0
    while True:
        for where, child in children(schema, path):
            trials += 1
            if trials > TRIALS_MAX:
                return path, why
            if isinstance(child, dict) and (reason := refuses({**definitions, **child})):
                schema, path, why = child, where, reason
                break
        else:
            return path, why
