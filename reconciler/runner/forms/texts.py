"""Strings in formats that write them as they are, without quotes or escapes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.runner.markup.values import kinds_of, takes_text, typed

from .lark import ANYTHING, Grammar, piece, quoted, regex, sequence, without
from .patterns import Unmatchable, matching
from .schemas import Inexpressible, Schema, counted

_HEX = "[0-9a-f]"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_URI = "A-Za-z0-9._~!$&'()*+,;=:@-"
FORMATS: Mapping[str, str] = {
    "uuid": f"^{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}$",
    "ipv4": rf"^{_BYTE}(\.{_BYTE}){{3}}$",
    "uri": rf"^[a-z][a-z0-9+.-]{{0,15}}://[a-z0-9-]{{1,63}}(\.[a-z0-9-]{{1,63}}){{0,8}}(:[0-9]{{1,5}})?(/[{_URI}/]*)?(\?[{_URI}/?]*)?$",
}
OTHERS = r"\s*[-0-9{\[]"
"""The beginning of numbers, objects and lists."""
_BOUNDED = frozenset({"integer", "number", "object", "array"})
"""The types whose values a schema may restrict further."""
_ELSEWHERE = ("allOf", "anyOf", "oneOf", "$ref")
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_"}
_UNLIKE = re.compile(r"\(\?(?!:).?|\\[1-9bBpPkDW]")
"""Look-around, references and the like: what is no plain regular expression, or means something else to others."""


def texts(schema: Any, path: str) -> list[tuple[Schema, str]]:
    """Return the schemas of the texts that a value may be, with their paths; it is written as text.

    Raises ``Inexpressible`` for what text cannot be held to.
    """
    if not isinstance(schema, Mapping):
        return [({}, path)]
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and "type" not in schema:
            found = [
                text
                for index, each in enumerate(schema[key])
                if isinstance(each, Mapping) and each and takes_text(each)
                for text in texts(each, f"{path}.{key}[{index}]")
            ]
            if found:
                return found
    for key in _ELSEWHERE:
        if key in schema:
            raise Inexpressible(f"{path}.{key}", f"this model's calls cannot be held to {key} here")
    return [(schema, path)]


def chosen_of(schema: Schema, path: str) -> list[str] | None:
    """Return the only texts that a schema allows; None if it names none. Raises ``Inexpressible``."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list):
        return None
    try:
        return matching(bodies(schema, path), [value for value in values if isinstance(value, str)])
    except Unmatchable as error:
        where = next((f"{path}.{key}" for key in ("pattern", "format") if key in schema), path)
        raise Inexpressible(where, f"answers cannot be held to this expression: {error}") from None


def as_text(chosen: Sequence[str], union: Any) -> list[str]:
    """Return those of some texts that are read as texts, where a value may be something else too."""
    return [text for text in chosen if typed(text, union) == json.dumps(text, ensure_ascii=False)]


def never_first(union: Any) -> list[str]:
    """Return how free text does not begin: as other values that a schema allows, which it would be read as."""
    return [OTHERS] if takes_text(union) and kinds_of(union) & _BOUNDED else []


def bodies(schema: Schema, path: str) -> list[str]:
    """Return the regular expressions that a text matches, all of them. Raises ``Inexpressible``."""
    found = []
    least, most = counted(schema, "minLength", path) or 0, counted(schema, "maxLength", path)
    if least or most is not None:
        found.append(f"(?s:.{{{least},{'' if most is None else most}}})")
    if "pattern" in schema:
        found.append(_whole(schema["pattern"], f"{path}.pattern"))
    if "format" in schema:
        if schema["format"] not in FORMATS:
            raise Inexpressible(f"{path}.format", "this model's calls cannot be held to this format")
        found.append(_whole(FORMATS[schema["format"]], path))
    return found


def _whole(pattern: Any, path: str) -> str:
    """Return the regular expression of whole texts in which a pattern is found. Raises ``Inexpressible``."""
    if not isinstance(pattern, str):
        raise Inexpressible(path, "a pattern is a string")
    if unlike := _UNLIKE.search(pattern):
        raise Inexpressible(path, f"this model's calls cannot be held to a pattern with {unlike[0]}")
    parts, anchors, depth, alternatives, within = [], [], 0, False, False
    for found in re.finditer(r"\\.|.", pattern, re.DOTALL):
        part = found[0]
        if part[0] == "\\":
            content = _CLASSES.get(part[1:])
            part = part if content is None else content if within else f"[{content}]"
        elif within:
            within = part != "]"
        elif part in "^$":
            anchors.append((part, found.start()))
            continue
        else:
            within = part == "["
            depth += (part == "(") - (part == ")")
            alternatives = alternatives or (part == "|" and not depth)
        parts.append(part)
    begins, ends = ("^", 0) in anchors, ("$", len(pattern) - 1) in anchors
    if len(anchors) > begins + ends or (anchors and alternatives):
        raise Inexpressible(path, "this model's calls cannot be held to such anchors")
    return f"{'' if begins else ANYTHING}(?:{''.join(parts)}){'' if ends else ANYTHING}"


def free_text(
    grammar: Grammar, expressions: Sequence[str], before: str, end: str, never_first: Sequence[str] = ()
) -> str:
    """Return text that matches regular expressions up to an end, and the end. ``before`` stands between both;
    ``never_first`` are expressions of how the text does not begin."""
    parts = [without(end), *map(regex, expressions)]
    parts += [f"~{regex(begin + ANYTHING)}" for begin in never_first]
    content = grammar.terminal(" & ".join(parts))
    first, *rest = grammar.pieces(before + end)
    if isinstance(first, int):
        return sequence(content, *map(piece, [first, *rest]))
    if not rest:
        return grammar.lazy(f"{content} {quoted(first)}")
    return sequence(grammar.terminal(f"{content} {quoted(first)}"), *map(piece, rest))
