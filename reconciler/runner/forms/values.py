"""Arguments in formats that do not write them as JSON. Pure.

Which types there are is read from the tool's schema, by what reads the answer (``markup.values.takes_text``) and here alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.runner.markup.calls import inlined
from reconciler.runner.markup.loose_calls import LooseCalls
from reconciler.runner.markup.nested_calls import NestedCalls
from reconciler.runner.markup.tagged_calls import CDATA, TaggedCalls
from reconciler.runner.markup.values import takes_text

from .lark import GAP, NOTHING, Grammar, choice, escaped, many, maybe, quoted, regex, sequence
from .schemas import Inexpressible, Schema, counted
from .texts import as_text, bodies, chosen_of, free_text, never_first, texts

KEY = regex("[A-Za-z_][A-Za-z0-9_]{0,63}")
DEPTH_MAX = 16
"""Levels of values within one argument."""
KINDS = "(boolean|number|integer|object|array|null)"
_OF_OBJECTS = frozenset(
    ["minProperties", "maxProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"]
)
NAME = re.compile(r"[\w.-]+")
_SPACES = re.compile(r"\{(\w+)\}")


def spelled(grammar: Grammar, template: str, parts: Mapping[str, str]) -> str:
    """Return a text in which names in braces stand for expressions."""
    found: list[str] = []
    at = 0
    for match in _SPACES.finditer(template):
        if match[1] in parts:
            found += [
                grammar.literal(template[at : match.start()]) if match.start() > at else "",
                parts[match[1]],
            ]
            at = match.end()
    return sequence(*found, grammar.literal(template[at:]) if at < len(template) else "")


def _members(schema: Schema, path: str, write: Callable[[str, Any, str], str]) -> Iterator[tuple[str, bool]]:
    """Yield the properties of an object as ``write`` writes them, by name, schema and path, and whether each is required.
    Raises ``Inexpressible``."""
    for key in sorted(_OF_OBJECTS & schema.keys()):
        raise Inexpressible(f"{path}.{key}", f"this model's calls cannot be held to {key} here")
    properties, required = schema.get("properties") or {}, schema.get("required") or ()
    for name in required:
        if name not in properties:
            raise Inexpressible(f"{path}.required", f"{name} is not among the properties")
    for name, given in properties.items():
        yield write(name, given, f"{path}.properties.{name}"), name in required


def _in_order(grammar: Grammar, members: Iterable[tuple[str, bool]]) -> str:
    return sequence(*(one if required else maybe(grammar.rule(one)) for one, required in members))


def _with_definitions(given: Any, schema: Schema) -> Schema:
    """Return the schema of a property with the definitions around it, to which it may refer."""
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {**definitions, **(given if isinstance(given, Mapping) else {})}


def _writable(name: str, path: str) -> str:
    if not NAME.fullmatch(name):
        raise Inexpressible(path, "this model cannot write this name")
    return name


class Tagged:
    """A tag for each argument, with text as it is, and everything else as JSON."""

    def __init__(self, grammar: Grammar, format: TaggedCalls) -> None:
        self._grammar = grammar
        self._format = format

    def arguments(self, schema: Schema | None, path: str) -> str:
        if schema is None:
            return many(sequence(self._begin(KEY, True), self._text({}, path), GAP))
        readable = inlined(schema).get("properties") or {}

        def write(name: str, given: Any, where: str) -> str:
            textual = takes_text(readable[name])
            if textual:
                value = self._texts(readable[name], where)
            else:
                value = self._json(_with_definitions(given, schema))
            return sequence(self._begin(quoted(name), textual), value, GAP)

        return _in_order(self._grammar, _members(schema, path, write))

    def _begin(self, key: str, textual: bool) -> str:
        format = self._format
        kind = quoted("string") if textual else regex(KINDS)
        parts = {"key": key, "textual": quoted("true" if textual else "false"), "type": kind}
        return sequence(
            self._grammar.literal(format.value),
            spelled(self._grammar, format.key_written, parts),
            self._grammar.literal(format.value_begins),
            quoted("\n") if format.lines else "",
        )

    def _json(self, schema: Schema) -> str:
        end = self._grammar.literal(self._format.value_ends)
        return sequence(self._grammar.json(schema), quoted("\n") if self._format.lines else "", end)

    def _texts(self, schema: Any, path: str) -> str:
        return choice(*(self._text(text, where, schema) for text, where in texts(schema, path)))

    def _text(self, schema: Schema, path: str, union: Any = None) -> str:
        """Return a text and the tag that ends it. ``union`` is all that the value may be."""
        end = self._format.value_ends
        before = "\n" if self._format.lines else ""
        chosen = chosen_of(schema, path)
        if chosen is not None:
            chosen = as_text(chosen, union)
            for text in chosen:
                if end in text or text.startswith(CDATA):
                    raise Inexpressible(path, f"this model cannot write {text!r:.40}")
            if not chosen:
                raise Inexpressible(path, "no text satisfies this schema")
            return sequence(
                choice(*(quoted(text + before) if text + before else NOTHING for text in chosen)),
                self._grammar.literal(end),
            )
        return free_text(
            self._grammar, bodies(schema, path), before, end, [escaped(CDATA), *never_first(union)]
        )


class Loose:
    """Arguments as those of a programming language."""

    def __init__(self, grammar: Grammar, format: LooseCalls) -> None:
        self._grammar = grammar
        self._format = format

    def arguments(self, schema: Schema | None, path: str) -> str:
        equals = self._format.equals
        if schema is None:
            one = sequence(KEY, quoted(equals), self._any(3))
            return maybe(sequence(one, many(sequence(regex(", ?"), one))))
        if self._format.quote:
            return self._members(inlined(schema), path, DEPTH_MAX)

        def write(name: str, given: Any, where: str) -> str:
            return sequence(quoted(name + equals), self._grammar.json(_with_definitions(given, schema)))

        return listed(self._grammar, _members(schema, path, write), regex(", ?"))

    def _any(self, depth: int) -> str:
        if not self._format.quote:
            return self._grammar.json({})
        simple = [self._text(()), self._grammar.json({"type": ["number", "boolean", "null"]})]
        if depth:
            inner = self._grammar.rule(self._any(depth - 1))
            member = sequence(KEY, quoted(":"), inner)
            simple += [_several("{", member, "}"), _several("[", inner, "]")]
        return self._grammar.rule(choice(*simple))

    def _members(self, schema: Schema, path: str, depth: int) -> str:
        def write(name: str, given: Any, where: str) -> str:
            return sequence(quoted(_writable(name, where) + ":"), self._value(given, where, depth - 1))

        return listed(self._grammar, _members(schema, path, write), quoted(","))

    def _value(self, schema: Any, path: str, depth: int) -> str:
        if not depth:
            raise Inexpressible(path, "nested too deeply for this model's calls")
        if not isinstance(schema, Mapping) or not schema:
            return self._any(3)
        return choice(*(self._one(*branch, depth) for branch in branches(schema, path)))

    def _one(self, kind: str, schema: Schema, path: str, depth: int) -> str:
        if kind == "object":
            if not schema.get("properties") and schema.get("additionalProperties") is not False:
                raise Inexpressible(path, "this model's calls need the properties of an object to be named")
            return sequence(quoted("{"), self._members(schema, path, depth), quoted("}"))
        if kind == "array":
            return elements(schema, path, "[", "]", lambda item, where: self._value(item, where, depth - 1))
        if kind == "string":
            ((text, where),) = texts(schema, path)
            chosen = chosen_of(text, where)
            if chosen is None:
                return self._text(bodies(text, where))
            if any(self._format.quote in each for each in chosen) or not chosen:
                raise Inexpressible(where, "no text that this model can write satisfies this schema")
            quote = self._grammar.literal(self._format.quote)
            return choice(*(sequence(quote, quoted(each) if each else "", quote) for each in chosen))
        return self._grammar.json(schema)

    def _text(self, matching: Sequence[str]) -> str:
        quote = self._grammar.literal(self._format.quote)
        return sequence(quote, free_text(self._grammar, matching, "", self._format.quote))


class Nested:
    """An element for each argument, and for each value within one."""

    def __init__(self, grammar: Grammar, format: NestedCalls) -> None:
        self._grammar = grammar
        self._format = format

    def arguments(self, schema: Schema, path: str) -> str:
        return self._members(inlined(schema), path, DEPTH_MAX)

    def _members(self, schema: Schema, path: str, depth: int) -> str:
        def write(name: str, given: Any, where: str) -> str:
            return sequence(self._element(_writable(name, where), given, where, depth - 1), GAP)

        return _in_order(self._grammar, _members(schema, path, write))

    def free(self, names: Sequence[str]) -> str:
        """Return arguments of these names, with any text."""
        found = [self._element(name, {}, "", 1) for name in names if NAME.fullmatch(name)]
        return many(sequence(choice(*found), GAP)) if found else ""

    def _element(self, name: str, schema: Any, path: str, depth: int) -> str:
        if not depth:
            raise Inexpressible(path, "nested too deeply for this model's calls")
        mark = self._format.mark
        close = f"{mark}</{name}>"
        return sequence(self._grammar.literal(f"{mark}<{name}>"), self._inside(schema, path, close, depth))

    def _inside(self, schema: Any, path: str, close: str, depth: int) -> str:
        end = self._grammar.literal(close)
        if takes_text(schema):
            return choice(*(self._text(text, where, close, schema) for text, where in texts(schema, path)))
        found = branches(schema, path)
        if all(kind == "simple" for kind, _, _ in found):
            return sequence(choice(*(self._grammar.json(each) for _, each, _ in found)), end)
        if len(found) > 1:
            raise Inexpressible(path, "this model's calls need one type here")
        kind, only, where = found[0]
        if kind == "object":
            return sequence(self._members(only, where, depth), end)
        if kind == "array" and not only.get("properties"):
            items = elements(
                only, where, "", "", lambda item, inner: self._element("item", item, inner, depth - 1), ""
            )
            return sequence(items, end)
        raise Inexpressible(path, "this model's calls need one type here")

    def _text(self, schema: Schema, path: str, close: str, union: Any) -> str:
        chosen = chosen_of(schema, path)
        mark = self._format.mark
        if chosen is None:
            end = free_text(self._grammar, bodies(schema, path), "", mark, never_first(union))
            return sequence(end, self._grammar.literal(close.removeprefix(mark)))
        chosen = as_text(chosen, union)
        if any(mark in each for each in chosen) or not chosen:
            raise Inexpressible(path, "no text that this model can write satisfies this schema")
        return sequence(choice(*(quoted(each) for each in chosen)), self._grammar.literal(close))


def branches(schema: Schema, path: str) -> list[tuple[str, Schema, str]]:
    """Return the alternatives of a schema and their paths, each with what it is: ``object``, ``array``, ``string``, or
    ``simple``, which all write as JSON. Raises ``Inexpressible``."""
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            if schema.keys() & {"type", "properties", "items", "enum", "const"}:
                raise Inexpressible(f"{path}.{key}", "this model's calls cannot be held to what is beside it")
            return [
                found
                for index, each in enumerate(schema[key])
                for found in branches(each if isinstance(each, Mapping) else {}, f"{path}.{key}[{index}]")
            ]
    for key in ("allOf", "$ref"):
        if key in schema:
            raise Inexpressible(f"{path}.{key}", f"this model's calls cannot be held to {key} here")
    given = schema.get("type")
    kinds = [given] if isinstance(given, str) else list(given or ())
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return _of_values(values, kinds, path)
    if not kinds:
        raise Inexpressible(path, "this model's calls need a type here")
    return [
        (kind if kind in ("object", "array", "string") else "simple", {**schema, "type": kind}, path)
        for kind in kinds
    ]


def _of_values(values: Sequence[Any], kinds: Sequence[str], path: str) -> list[tuple[str, Schema, str]]:
    if any(isinstance(value, (dict, list)) for value in values):
        raise Inexpressible(path, "this model's calls can be held to simple values alone here")
    texts = [value for value in values if isinstance(value, str)] if not kinds or "string" in kinds else []
    others = [value for value in values if not isinstance(value, str)]
    simple = [kind for kind in kinds if kind != "string"]
    found: list[tuple[str, Schema, str]] = (
        [("string", {"type": "string", "enum": texts}, path)] if texts else []
    )
    if others and (simple or not kinds):
        found.append(("simple", {"enum": others, **({"type": simple} if simple else {})}, path))
    if not found:
        raise Inexpressible(path, "nothing satisfies this schema")
    return found


def elements(
    schema: Schema, path: str, opens: str, closes: str, write: Any, separator: str | None = None
) -> str:
    """Return a list of values. Raises ``Inexpressible``."""
    for key in ("prefixItems", "contains", "uniqueItems"):
        if key in schema:
            raise Inexpressible(f"{path}.{key}", f"this model's calls cannot be held to {key} here")
    item = write(schema.get("items") or {}, f"{path}.items")
    least, most = counted(schema, "minItems", path) or 0, counted(schema, "maxItems", path)
    between = quoted(",") if separator is None else separator
    if most == 0:
        inner = ""
    else:
        rest_least, rest_most = max(0, least - 1), "" if most is None else most - 1
        inner = sequence(item, f"({sequence(between, item)}){{{rest_least},{rest_most}}}")
        inner = inner if least else maybe(inner)
    return sequence(quoted(opens) if opens else "", inner, quoted(closes) if closes else "")


def _several(opens: str, item: str, closes: str) -> str:
    return sequence(quoted(opens), maybe(sequence(item, many(sequence(quoted(","), item)))), quoted(closes))


def listed(grammar: Grammar, members: Iterable[tuple[str, bool]], separator: str) -> str:
    """Return members in their order, of which some are required, with something between any two."""
    begin, tail = "", ""
    for member, required in reversed(list(members)):
        whole = sequence(member, tail)
        begin = grammar.rule(whole if required else choice(whole, begin or NOTHING))
        following = sequence(separator, member)
        tail = grammar.rule(sequence(following if required else maybe(following), tail))
    return begin
