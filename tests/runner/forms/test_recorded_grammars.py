# ruff: noqa: B023 - each function is called where it is written
"""The grammar of many forms for each family, and what is refused and why, line by line.

``UPDATE_GOLDEN=1 pytest tests/runner/forms/test_recorded_grammars.py`` writes the files again. A line has the input's name,
and the grammar's beginning with a digest of all of it, or the refusal with the path. A line that differs is another
grammar, or another refusal, of the same form.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.runner.forms import lark, patterns, schemas, texts
from reconciler.runner.forms.answers import Asked, grammar_of, schemas_of
from reconciler.runner.forms.matching import PLACE, Matcher, Unfit, _first_line
from reconciler.runner.forms.schemas import Inexpressible
from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.families import FAMILIES
from reconciler.wire.form import Form
from tests.recorded import compare, digest
from tests.runner.lines import RECORDED, Lines, compact, line

from .random_schemas import Schemas
from .walks import family, function

THINKING = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
LENGTH = 36


def held(ask: Callable[[], object]) -> object:
    """An answer, or the path and the reason of its refusal."""
    try:
        return ask()
    except Inexpressible as refused:
        return f"REFUSED {refused.path}: {refused.why}"


def written(name: str, asked: Asked, its: Family, special: Mapping[str, int], ends: Sequence[str]) -> str:
    found = held(lambda: grammar_of(asked, its, special, ends))
    if isinstance(found, str) and found.startswith("REFUSED"):
        return line(name, found, LENGTH)
    return f"{name}: {digest(found)}"


def deep(count: int, of: str = "object") -> dict[str, Any]:
    found: dict[str, Any] = TEXT
    for _ in range(count):
        inner = {"properties": {"a": found}} if of == "object" else {"items": found}
        found = {"type": of, **inner}
    return found


VALUES: Sequence[Any] = (
    {}, True, TEXT, NUMBER, {"type": "number"}, {"type": "boolean"}, {"type": "null"}, {"type": "any"},
    {"type": "object"}, {"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": TEXT},
    {"type": "object", "properties": {"a": TEXT, "b-c": NUMBER}, "required": ["b-c"]},
    {"type": "object", "properties": {"a b": TEXT}},
    {"type": "object", "properties": {"a": TEXT, "b": TEXT, "c": TEXT}, "required": ["a", "c"]},
    {"type": "object", "properties": {"a": TEXT, "b": TEXT, "c": TEXT}, "required": ["b"]},
    {"type": "object", "properties": {"a": TEXT}, "required": ["z"]},
    {"type": "object", "properties": {"item": TEXT}},
    {"type": "object", "properties": {"a": TEXT}, "minProperties": 1},
    {"type": "object", "properties": {"a": TEXT}, "maxProperties": 1},
    {"type": "object", "patternProperties": {"^a": TEXT}}, {"properties": {"a": TEXT}},
    {"type": "array"}, {"type": "array", "items": TEXT}, {"type": "array", "items": {}}, {"items": NUMBER},
    {"type": "array", "items": NUMBER, "minItems": 1}, {"type": "array", "items": NUMBER, "maxItems": 0},
    {"type": "array", "items": NUMBER, "maxItems": 1}, {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 5},
    {"type": "array", "items": NUMBER, "minItems": -1}, {"type": "array", "items": NUMBER, "maxItems": 1.5},
    {"type": "array", "items": NUMBER, "minItems": 0}, {"type": "array", "items": {"type": "array", "items": TEXT}},
    {"type": "array", "prefixItems": [TEXT, NUMBER]}, {"type": "array", "properties": {"a": TEXT}},
    {"type": "object", "items": TEXT, "properties": {"a": {"type": "array", "items": {"enum": ["x", "]<]minimax[>["]}}}},
    {"type": ["string", "null"]}, {"type": ["integer", "string"]}, {"type": ["object", "array"]},
    {"type": ["object", "null"], "properties": {"a": NUMBER}}, {"type": ["array", "string"], "items": NUMBER},
    {"anyOf": [TEXT, NUMBER]}, {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]}, {"anyOf": [{}, TEXT]},
    {"oneOf": [NUMBER, {"type": "null"}]}, {"anyOf": [TEXT], "type": "string"}, {"anyOf": [TEXT], "enum": ["a"]},
    {"anyOf": [True, TEXT]}, {"anyOf": []}, {"oneOf": [{"anyOf": [TEXT, {"const": "5"}]}, {"type": "object"}]},
    {"allOf": [TEXT]}, {"allOf": [TEXT, {"minLength": 1}]}, {"$ref": "#/$defs/d"}, {"$ref": "#/$defs/t"}, {"$ref": "#/$defs/none"},
    {"$ref": "#/$defs/self"}, {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]},
    {"enum": ["a", "b"]}, {"enum": ["a", 1, None]}, {"enum": [1, 2.5, True]}, {"enum": [{"a": 1}]}, {"enum": []},
    {"enum": ["", "a\nb", "\u00e9\""]}, {"enum": ["5", "x"]}, {"type": "string", "enum": ["5", 5, "x"]},
    {"type": ["string", "integer"], "enum": ["5", "x", 7]}, {"type": "integer", "enum": ["a", 3]}, {"type": "integer", "enum": ["a"]},
    {"enum": ["</parameter>", "a"]}, {"enum": ["<![CDATA[x"]}, {"enum": ["<|\"|>", "a"]}, {"enum": ["<escape>"]}, {"enum": ["]<]minimax[>["]},
    {"const": "x"}, {"const": 5}, {"const": None}, {"const": ["x"]}, {"const": "true", "type": ["string", "boolean"]},
    {"type": "string", "minLength": 1}, {"type": "string", "minLength": 0}, {"type": "string", "maxLength": 0},
    {"type": "string", "minLength": 2, "maxLength": 3}, {"type": "string", "maxLength": "3"}, {"type": "string", "minLength": True},
    {"type": "string", "minLength": 2, "enum": ["a", "ab", "abc"]}, {"type": "string", "maxLength": 2.0},
    {"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "a$"}, {"type": "string", "pattern": "a"},
    {"type": "string", "pattern": "^a$", "enum": ["a", "b"]}, {"type": "string", "pattern": "^z$", "enum": ["a", "b"]},
    {"type": "string", "pattern": "(?=a)"}, {"type": "string", "pattern": "(", "enum": ["a"]}, {"type": "string", "pattern": 5},
    {"type": "string", "format": "uuid"}, {"type": "string", "format": "ipv4"}, {"type": "string", "format": "uri", "maxLength": 20},
    {"type": "string", "format": "date"}, {"type": "string", "format": "email"}, {"type": "string", "format": "odd"},
    {"type": "integer", "format": "int32"}, {"type": "string", "format": "date", "pattern": "(?!x)"},
    {"type": "string", "format": "ipv4", "enum": ["1.2.3.4", "1.2.3"]}, {"type": ["string", "integer"], "pattern": "^a"},
    {"type": "string", "not": {}}, {"type": "string", "not": False}, {"type": "array", "uniqueItems": True}, {"type": "array", "contains": {}},
    {"type": "array", "uniqueItems": False}, {"type": "object", "propertyNames": {"type": "string"}},
    deep(13), deep(14), deep(15), deep(16), deep(17), deep(14, "array"), deep(15, "array"), deep(16, "array"),
)  # fmt: skip
SPOKEN = (
    "hermes",
    "qwen3-coder",
    "glm",
    "kimi-k3",
    "gemma-4",
    "function-gemma",
    "lfm2",
    "minimax-m3",
    "minicpm",
)
"""One family for each way to write values."""
DEFINED = {"d": {"type": "object", "properties": {"x": NUMBER}}, "t": TEXT, "self": {"type": "array", "items": {"$ref": "#/$defs/self"}}}  # fmt: skip


def tool_of(value: Any) -> Any:
    properties = {"v": value, "n": NUMBER}
    return function("f", {"type": "object", "properties": properties, "required": ["v"], "$defs": DEFINED})


def test_values_of_arguments_have_the_recorded_grammars() -> None:
    lines = Lines()
    form = Form(calls_required=True)
    for number, value in enumerate(VALUES):
        lines.add(f"{number}", value)
        for name in SPOKEN:
            asked = Asked(form, (tool_of(value),), True, "")
            lines.put(written(f"{number} {name}", asked, family(name), {}, ()))
    compare(RECORDED / "forms_values.txt", lines)


CONTENT = json.dumps({"type": "object", "properties": {"a": TEXT}})
TWO = (
    function("get", {"type": "object", "properties": {"a": TEXT, "b": NUMBER}, "required": ["a"]}),
    function("put it", None),
    {"type": "function", "function": {"name": "bare", "parameters": {"type": "object", "properties": None}}},
)
FORMS: Mapping[str, Asked] = {
    "free": Asked(Form(), TWO, True, ""),
    "required": Asked(Form(calls_required=True), TWO, True, ""),
    "required once": Asked(Form(calls_required=True), TWO, False, ""),
    "one chosen": Asked(Form(calls_required=True, callable=("get",)), TWO, True, ""),
    "may call": Asked(Form(callable=("bare", "put it")), TWO, True, ""),
    "none chosen": Asked(Form(callable=("none",)), TWO, True, ""),
    "strict": Asked(Form(strict=("get",)), TWO, True, ""),
    "strict once": Asked(Form(strict=("get", "bare")), TWO, False, ""),
    "unheld": Asked(Form(strict=("get",)), TWO, True, "", unheld=frozenset({0})),
    "content": Asked(Form(schema=CONTENT), (), True, ""),
    "content or calls": Asked(Form(schema=CONTENT, strict=("get",)), TWO, True, ""),
    "expression": Asked(Form(regex="a/b\n\\/c|(d)"), (), True, ""),
    "expression or calls": Asked(Form(regex="[ab]+"), TWO, True, ""),
    "literal": Asked(Form(schema=CONTENT), TWO, True, "<think>", literal=True),
    "literal and free": Asked(Form(), (), True, "", literal=True),
    "begun": Asked(Form(schema=CONTENT), TWO, True, "a<think>\n"),
    "over": Asked(Form(schema=CONTENT), TWO, True, "a</think>\n\n"),
    "mistral's": Asked(Form(strict=("get",)), TWO, True, "a[THINK] \n"),
    "functionary's": Asked(Form(schema=CONTENT), TWO, True, ">>>"),
}
ENDINGS = (
    (),
    ("<|eom_id|>", "<|call|>", "</tool_call>", "<tool_call|>", "<|calls|>", "<|tool_call_end|>", "]"),
)


def test_answers_of_each_family_have_the_recorded_grammars() -> None:
    lines = Lines()
    for known in FAMILIES:
        name = known.family.name
        special = {marker: 100 + at for at, marker in enumerate(known.family.markers) if "<" in marker}
        thinking = dataclasses.replace(known.family, thinking=THINKING)
        for asked_name, asked in FORMS.items():
            texts_alone = written("", asked, known.family, {}, ENDINGS[0])
            tokens = written("", asked, known.family, special, ENDINGS[1])
            thinks = written("", asked, thinking, {"<think>": 5, "</think>": 6}, ENDINGS[0])
            few = [texts_alone, tokens, thinks]
            lines.put(f"{name}, {asked_name}" + "".join(few))
    plain = Family("plain", thinking=THINKING)
    for asked_name, asked in FORMS.items():
        if not asked.form.calls_required:
            lines.add(f"plain, {asked_name}", held(lambda: grammar_of(asked, plain, {}, ())))
            lines.add(f"{asked_name}, schemas", held(lambda: schemas_of(asked)))
    its = family("hermes")
    for asked_name in ("strict", "required", "content", "content or calls", "may call"):
        found = grammar_of(FORMS[asked_name], its, {"<tool_call>": 7}, ())
        lines += [line(f"hermes, {asked_name}, rule", rule, 400) for rule in found.splitlines()]
    compare(RECORDED / "forms_families.txt", lines)


def test_tools_that_no_call_can_be_held_to_are_left_free_as_recorded() -> None:
    odd = function("odd", {"type": "object", "not": {}})
    dropped = function("dropped", {"properties": {"a": {"format": "date", "pattern": "(?=x)"}, "b": {}}})
    tools = (TWO[0], odd, odd, dropped)
    twice = json.dumps(
        {
            "items": {"format": "time", "pattern": "\\1"},
            "prefixItems": [{"format": "uuid", "pattern": "(?<!a)"}],
        }
    )
    lines = Lines()
    for form in (
        Form(strict=("odd", "dropped")),
        Form(strict=("get",)),
        Form(calls_required=True),
        Form(schema=twice),
        Form(schema=twice, strict=("dropped",), tool_paths=("a", "b")),
    ):
        asked: Asked | None = Asked(form, tools, True, "")
        for path in ("tools", "tools[0].function.parameters", "tools[1].function.parameters.not", "tools[1].function.parameters", "tools[2].function.parameters[0]", "tools[1].function.parametersx", "b.c", "tools[9].function.parameters"):  # fmt: skip
            after = asked.without(path) if asked else None
            if after is not None:
                asked = after
            shown = after and [after.unheld, after.replaced]
            lines.add(f"{form.strict} {form.calls_required} {path}", shown)
        assert asked is not None
        lines.add(f"{form.strict} {form.calls_required} replaced", asked.replaced)
    compare(RECORDED / "forms_left_free.txt", lines)


TRIED: Sequence[Any] = (True, False, {}, [], 0, 1, None, {"type": "string"})
PARAMETERS: Sequence[Any] = (
    None, {}, {"type": "string"}, {"type": "object"}, {"properties": {}}, {"anyOf": [{}]}, {"properties": {"a": {}}},
    {"type": ["object"]}, False, {"additionalProperties": {}}, {"$ref": "#/a"},
)  # fmt: skip
CHECKED: Sequence[Any] = (
    True, False, None, 5, "x", [], {}, {"x-guidance": {}}, *({key: value} for key in schemas.UNENFORCED for value in TRIED),
    {"format": "odd"}, {"format": 5}, {"format": None}, {"format": "odd", "type": "integer"}, {"format": "email", "type": ["string", "null"]},
    {"format": "odd", "type": ["integer", "null"]}, {"format": "date"}, {"format": "date", "pattern": "a"}, {"format": "time", "pattern": "(?=a)"},
    {"format": "date-time", "pattern": "a", "allOf": [{"minLength": 1}]}, {"format": "email", "pattern": "a"}, {"format": "uuid", "type": "integer", "pattern": "\\1"},
    *({"pattern": pattern} for pattern in ("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "\\1", "\\k<n>", "\\\\1", "[(?=]", "[\\]\\1](?:a)", "\\(?=a", "(?<n>a)", 5, "\\0", "a[b", "[(?=]\\9")),
    {"format": "odd", "type": 5}, {"format": "odd", "type": "strings"}, {"pattern": "(?=a)", "type": "integer"}, {"pattern": "\\2", "type": ["string", "null"]},
    *({"minProperties": least, **more} for least in (0, 1, 1.0, 2, 2.5, 3, "9") for more in ({}, {"required": ["a", "b"]}, {"required": 5})),
    {"minLength": 2.0, "maxLength": 2.5}, {"minItems": 1.0, "maxItems": "1"}, {"minProperties": 1.0, "maxProperties": 3.0},
    {"properties": {"a": {}}}, {"properties": {}}, {"properties": {"a": {}}, "required": ["b"]}, {"properties": {"a": {}}, "required": "a"},
    {"properties": {"a": {}, "5": {}}, "required": [5]}, {"properties": {"a": {"properties": {"b": {}}}}, "additionalProperties": True},
    {"properties": {"a": {}}, "allOf": []}, {"properties": {"a": {}}, "allOf": [{}]}, {"properties": {"a": {}}, "anyOf": [{}]},
    {"required": ["a"], "oneOf": [{}]}, {"oneOf": [{"properties": {"a": {}}}]}, {"oneOf": [{}], "anyOf": [{}]}, {"$ref": "#", "anyOf": [{}]},
    {"items": {"properties": {"a": {}}}, "anyOf": [{"properties": {"a": {}}}], "title": "x"}, {"$ref": "#/a", "properties": {"b": {}}},
    {"items": [{"minItems": 1.0}, 5, {"not": {}}]}, {"prefixItems": [{}, {"if": {}}]}, {"anyOf": [{}, {"not": {}}]}, {"allOf": [{"not": False}]},
    {"properties": {"a": {"not": {}}, "b": {"if": {}}}}, {"$defs": {"a": {"not": {}}}}, {"definitions": {"a": {"minLength": 1.0}}},
    {"patternProperties": {"a": {"then": {}}}}, {"additionalProperties": {"else": {}}}, {"additionalItems": {"not": {}}}, {"items": {"not": {}}},
    {"properties": [], "anyOf": {}, "items": None}, {"enum": [{"not": {}}], "default": {"not": {}}}, {"properties": {"not": {}}},
)  # fmt: skip


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"items": found}
    return found


def test_schemas_are_checked_as_recorded() -> None:
    lines = Lines()
    for each in CHECKED:
        lines.add(compact(each)[:60], held(lambda: schemas.ready(each, "at")))
    for levels in (63, 64, 65, 66):
        lines.add(f"{levels} levels", held(lambda: digest(schemas.ready(nested(levels), "at"))))
    for count in (3998, 3999, 4000):
        wide: Any = {"prefixItems": [{}] * count}
        lines.add(f"{count} schemas", held(lambda: digest(schemas.ready(wide, "at"))))
    for length in (schemas.BYTES_MAX, schemas.BYTES_MAX + 1):
        text = '{"title": "' + "x" * (length - 13) + '"}'
        lines.add(f"{length} long", held(lambda: digest(schemas.parsed(text, "at"))))
        tools = tuple(function("f", {"title": "x" * (length - 13)}) for _ in range(4))
        asked = Asked(Form(strict=("f",)), tools, True, "")
        lines.add(f"{length} long four times", held(lambda: len(schemas_of(asked))))
    for text in ("", "[", '{"a": nan}', "true", "false", '{"not": {}}'):
        lines.add(text, held(lambda: schemas.parsed(text, "at")))
    for given in PARAMETERS:
        lines.add(f"arguments {given}", held(lambda: schemas.arguments(given, "at")))
    for seed in range(40):
        drawn = Schemas(seed)
        lines.add(f"drawn {seed}", held(lambda: schemas.ready(drawn.answer(), "at")), LENGTH)
        own = drawn.arguments()
        asked = Asked(Form(calls_required=True), (function("f", own),), True, "")
        for name in ("qwen3-coder", "gemma-4", "minimax-m3", "lfm2"):
            lines.put(written(f"drawn {seed} {name}", asked, family(name), {}, ()))
    compare(RECORDED / "forms_checked.txt", lines)


def test_what_cannot_be_compiled_is_found_as_recorded() -> None:
    whole = {
        "$defs": {"a": {"bad": 1}, "b": {}},
        "definitions": {"c": {}},
        "properties": {"x": {"items": [{"bad": 1}, {"items": {"bad": 2}}]}, "y": {"bad": 3}},
        "anyOf": [True, {"bad": 4}],
    }
    lines = Lines()
    for seen in ('"bad":1', '"bad":2', '"bad":3', '"bad":4', '"bad"', '"definitions"', "none"):
        tried: list[str] = []

        def refuses(schema: schemas.Schema, seen: str = seen, tried: list[str] = tried) -> str:
            tried.append(compact(schema))
            return f"has {seen}" if seen in tried[-1] else ""

        found = schemas.culprit(whole, "at", refuses)
        lines.add(f"culprit {seen}", [*found, len(tried), digest(tried)])
    for count in (198, 199, 200, 201, 202):
        many = {"prefixItems": [{"n": at} for at in range(count)] + [{"items": {"bad": 1}}]}
        found = schemas.culprit(many, "at", lambda schema: "bad" if "bad" in compact(schema) else "")
        lines.add(f"culprit of {count}", found)
    compare(RECORDED / "forms_culprits.txt", lines)


EXPRESSIONS = (
    "", "^", "$", "^$", "a", "^a", "a$", "^a$", "a|b", "^a|b", "a|b$", "^(a|b)$", "(^a|b)", "a^b", "a$b", "[$^]", "^[]]$", "[a|b]$",
    "\\^a\\$", "\\d", "[\\d]", "^\\w+$", "[^\\w]", "\\d{2}|x", "(?:a)", "(?i)a", "(?=a)", "(?!a)", "(?<!a)", "(?P<n>a)", "\\1", "\\b",
    "\\p{L}", "\\P{L}", "\\D", "\\W", "\\s", "a\n", ".", "(a(b|c)d)$", "^(a)|(b)", "((a)|b)$", "\\\\$", "\\$", "^^a", "a$$", "[^a]$", "[a^]$",
)  # fmt: skip
MATCHED = ("", "a", "b", "ab", "5", "\u00e9", "a\nb", "^a$", "\\")


def test_texts_are_held_as_recorded() -> None:
    lines = Lines()
    for pattern in EXPRESSIONS:
        found = held(lambda: texts.bodies({"pattern": pattern}, "at"))
        lines.add(ascii(pattern), found)
        if isinstance(found, list):
            chosen = {"pattern": pattern, "enum": [*MATCHED, 5, None]}
            lines.add(f"{pattern!a} of", held(lambda: texts.chosen_of(chosen, "at")))
    for expressions in ((), ("a",), ("a|b", "b|c"), ("(",), (".*",), ("(?s:.*)", "[^b]*"), ("\\xff",)):
        for given in ((), ("a", "b", "ab", "\u00e9", "x" * 5000, "\ud800")):
            try:
                matched: object = [each[:5] for each in patterns.matching(expressions, given)]
            except patterns.Unmatchable as error:
                matched = f"UNMATCHABLE {error}"
            lines.add(f"{expressions} {len(given)}", matched)
    for union in (
        None,
        {},
        TEXT,
        {"type": ["string", "integer"]},
        {"type": ["string", "null", "boolean"]},
        {"type": "integer"},
    ):
        lines.add(f"first {union}", texts.never_first(union))
        lines.add(f"as {union}", texts.as_text(["5", "x", "null", '"', "", "[1]", "true"], union))
    for schema in (
        *VALUES[36:60],
        5,
        {"anyOf": [TEXT, {"anyOf": [{"const": "a"}]}]},
        {"anyOf": [NUMBER], "minLength": 1},
    ):
        lines.add(f"texts {compact(schema)}", held(lambda: texts.texts(schema, "at")))
    compare(RECORDED / "forms_texts.txt", lines)


def test_grammars_are_written_as_recorded() -> None:
    lines = Lines()
    marks = ("", "a", "<a>", "<a>x<b>", "x<a>", "<ab>", "a/b", '"\n')
    for special in ({}, {"<a>": 3, "<b>": 4, "<ab>": 5, "<a": 6}):
        for mark in marks:
            grammar = lark.Grammar(special)
            lines.add(f"pieces {mark!a}", [grammar.pieces(mark), grammar.literal(mark)])
            for never in ((), ("no", "/")):
                if mark:
                    until = grammar.until(mark, never)
                    lines.add(f"until {mark!a} {never}", grammar.text(until), 300)
            free = texts.free_text(grammar, ["a", "b"], "\n", mark or "e", ["c"])
            lines.add(f"free {mark!a}", [free, digest(grammar.text(free))])
    for text in ("", "a.b", "/", "\\/", "\\\\/", "a\nb\\\n", "\u00e9\x00 ", "-#&~"):
        lines.add(ascii(text), [lark.escaped(text), lark.regex(text), lark.quoted(text)])
    for parts in ((), ("a",), ("a", "a"), ("a", "b", "a"), ("", "a", ""), ("", "")):
        shown = [lark.sequence(*parts), *([lark.choice(*parts)] if parts else []), lark.without(*parts)]
        lines.add(f"{parts}", shown, 300)
    for part in ("", "a", "a b", "(a)", "[a]"):
        lines.add(ascii(part), [lark.many(part), lark.many(part, 1), lark.many(part, 2), lark.maybe(part)])
    grammar = lark.Grammar({})
    names = [
        grammar.rule("a"),
        grammar.rule("b"),
        grammar.rule("a"),
        grammar.terminal("a"),
        grammar.lazy("a"),
    ]
    names += [grammar.json({"b": "\u00e9"}), grammar.lazy("a"), grammar.terminal("b")]
    lines.add("names", [names, grammar.text("x")], 400)
    for length in (lark.CHARACTERS_MAX - 1, lark.CHARACTERS_MAX):
        full = lark.Grammar({})
        full.rule("x" * length)
        try:
            lines.add(f"{length} characters", full.rule("y"))
        except lark.TooLarge as error:
            lines.add(f"{length} characters", str(error))
    compare(RECORDED / "forms_written.txt", lines)


class Consuming:
    """A matcher that takes tokens below 10."""

    def consume_token(self, token: int) -> bool:
        return token < 10

    def try_consume_tokens(self, tokens: Sequence[int]) -> int:
        return next((at for at, token in enumerate(tokens) if token >= 10), len(tokens))

    def get_error(self) -> str:
        return ""


def test_matchers_and_their_errors_are_told_as_recorded() -> None:
    lines = Lines()
    for tokens in ((), (1,), (1, 99), (99,), (99, 1), (1, 50), (50, 1, 99), (1, 99, 50)):
        matcher = Matcher(Consuming(), frozenset({99}), "at")
        for token in tokens:
            matcher.advance(token)
        lines.add(f"{tokens}", [matcher.failure, matcher._over])
        try:
            Matcher(Consuming(), frozenset({99}), "at").take(tokens)
        except Unfit as error:
            lines.add(f"{tokens} unfit", str(error))
    for said in (
        "",
        "a\nb",
        "x oneOf constraints y",
        f"1: {PLACE}why\nb",
        "a:\nb\nerror: c\nerror: d",
        "a:\nb",
        "x" * 400,
    ):
        lines.add(ascii(said)[:40], _first_line(said))
    compare(RECORDED / "forms_matchers.txt", lines)
