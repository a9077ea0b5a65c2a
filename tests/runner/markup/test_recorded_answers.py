# ruff: noqa: B023 - each function is called where it is written
"""What the readers of each family make of many answers, sound and spoiled, line by line.

``UPDATE_GOLDEN=1 pytest tests/runner/markup/test_recorded_answers.py`` writes the files again. A line has the family, the
text's name, and what a client gets: ``C`` content, ``R`` reasoning, ``CALL`` name, id and arguments, ``HALF`` a call
that was taken back. After it is a digest of the parts, of the text as a whole and of its characters one by one; ``CUT``
has what a client gets of the characters, where that differs.
A line that differs is another answer to the same text.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.runner.markup import values
from reconciler.runner.markup.answer import Family, Parser
from reconciler.runner.markup.calls import inlined
from reconciler.runner.markup.families import FAMILIES, THINKING, family_of, reading_of
from reconciler.runner.markup.parts import (
    Arguments,
    CallBegun,
    CallEnded,
    CallWithdrawn,
    Content,
    Part,
    Reasoning,
)
from tests.recorded import compare, digest
from tests.runner.lines import RECORDED, Lines, line, told

from .writers import OTHER_WAYS, WRITERS, Writer

PLAIN: Any = {"city": "Rome", "days": 3}
RICH: Any = {
    "city": 'a "b" \\ \u00e9\n<x> </',
    "days": -1.5,
    "on": True,
    "off": None,
    "list": [1, "2", [], {}],
    "deep": {"k": {"l": [False, None, "z"]}},
}
TOOLS: Sequence[Mapping[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "number"},
                    "on": {"type": "boolean"},
                    "off": {"type": ["string", "null"]},
                    "list": {"type": "array"},
                    "deep": {"type": "object", "properties": {"k": {"type": "object"}}},
                    "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "bare"}},
    {"type": "function"},
]
CALLS: Mapping[str, Sequence[tuple[str, Any]]] = {
    "one": [("weather", PLAIN)],
    "rich": [("weather", RICH)],
    "empty": [("now", {})],
    "two": [("weather", PLAIN), ("now", {})],
    "three": [("bare", {"x": "1", "y": 2}), ("weather", {"either": "5"}), ("weather", {"either": "five"})],
    "unknown": [("other_tool", {"city": "x", "n": "7"})],
    "no name": [("", PLAIN)],
    "odd name": [("a b", PLAIN), ("weather", PLAIN)],
    "undeclared": [("weather", {"what": "12", "city": "7"})],
    "deepest": [("weather", {"deep": {"k": "x"}, "list": [[["y"]]]})],
    "wrapped": [("weather", {"arguments": {"city": "Oslo", "days": 1}})],
    "wrapped wrongly": [("weather", {"input": {"town": "Oslo"}})],
}
OTHERWISE = ("one", "rich", "two", "unknown")
"""The calls that are written in the other ways too."""
SHAPES: Mapping[str, str] = {
    "alone": "{}",
    "before": "Let me see. {}",
    "around": "\n\nfirst\n{}\n\nlast \n",
    "twice": "{}\nand\n{}",
    "after reasoning": "<think>hm \n</think>\n\n{}",
    "in reasoning": "<think>hm {} so</think>done",
    "at the end of reasoning": "<think>hm {}",
    "after closed": "</think>{}",
}
WRONG = ("", "{", "}", '"', "\\", "\n", "<", ">", "[", "]", "'", " ", ",", "=", ":", "\u00e9", "</", "x")
LENGTH = 28
SPOILED = 6
"""Spoiled texts of each way of writing."""


def family(name: str) -> Family:
    (known,) = [known.family for known in FAMILIES if known.family.name == name]
    return known if known.thinking else dataclasses.replace(known, thinking=(("<think>", "</think>"),))


def seen(parts: Sequence[Part]) -> str:
    """The parts as a client puts them together."""
    found: list[str] = []
    kind, text = "", ""

    def over() -> None:
        if kind:
            found.append(f"{kind} {json.dumps(text, ensure_ascii=False)}")

    for part in parts:
        match part:
            case Content() | Reasoning():
                its = "C" if isinstance(part, Content) else "R"
                if kind != its:
                    over()
                    kind, text = its, ""
                text += part.text
            case CallBegun():
                over()
                kind, text = "", ""
                found.append(f"CALL {part.name}#{part.id} ")
            case Arguments():
                found[-1] += part.text
            case CallEnded():
                found[-1] += "."
            case CallWithdrawn():
                found[-1] += "HALF"
    over()
    return " | ".join(found)


def answered(
    its: Family, text: str, tools: Sequence[Any] = TOOLS, prompt: str = "", formed: bool = False
) -> str:
    """What a client gets, with digests of the parts."""
    whole = Parser(its, tools, prompt, formed)
    parts = [*whole.feed(text), *whole.end()]
    cut = Parser(its, tools, prompt, formed)
    pieces = [cut.feed(character) for character in text]
    pieces.append(cut.end())
    one = line("", seen(parts), LENGTH)[2:]
    other = seen([part for piece in pieces for part in piece])
    return f"{one} [{digest([parts, pieces])}]" + ("" if other == seen(parts) else f" CUT {other}")


def cut(its: Family, text: str, step: int = 1) -> str:
    """A digest of what a client gets of each beginning of a text."""
    found = []
    for at in range(0, len(text), step):
        parser = Parser(its, TOOLS, "")
        found.append(seen([*parser.feed(text[:at]), *parser.end()]))
    return digest(found)


def ways() -> Iterator[tuple[str, Family, Writer]]:
    for name, write in WRITERS.items():
        yield name, family(name), write
    for number, (name, write) in enumerate(OTHER_WAYS):
        yield f"{name} {number}", family(name), write


def spoil(drawn: random.Random, text: str) -> str:
    """A text with one or two faults."""
    for _ in range(drawn.choice((1, 1, 2))):
        at = drawn.randrange(len(text) + 1)
        count = drawn.choice((0, 1, 1, 2, 7))
        text = text[:at] + drawn.choice(WRONG) + text[at + count :]
    return text[: drawn.randrange(len(text) + 1)] if drawn.random() < 0.2 else text


def test_answers_of_each_family_are_read_as_recorded() -> None:
    lines = Lines()
    for name, its, write in ways():
        for called, calls in CALLS.items():
            if name in WRITERS or called in OTHERWISE:
                lines.put(f"{name}, {called}: {answered(its, write(calls))}")
        if name not in WRITERS:
            continue
        for shape, text in SHAPES.items():
            lines.put(f"{name}, {shape}: {answered(its, text.replace('{}', write(CALLS['two'])))}")
        text = write(CALLS["two"])
        lines.put(f"{name}, no tools: {answered(its, text, tools=())}")
        lines.put(f"{name}, formed: {answered(its, f'a{text}', formed=True)}")
        lines.put(f"{name}, formed, at once: {answered(its, f' {text} a', formed=True)}")
        lines.put(f"{name}, begun: {answered(its, f'so </think> yes {text}', prompt='x<think> ')}")
    compare(RECORDED / "markup_answers.txt", lines)


def test_spoiled_answers_are_read_as_recorded() -> None:
    lines = Lines()
    for name, its, write in ways():
        drawn = random.Random(name)
        texts = [write(CALLS[each]) for each in ("two", "rich", "three")]
        for number in range(SPOILED):
            text = spoil(drawn, texts[number % len(texts)])
            lines.put(f"{name}, {number}: {answered(its, text)}")
        lines.put(f"{name}, cut: {cut(its, texts[0], step=5)}")
    compare(RECORDED / "markup_spoiled.txt", lines)


MARKERS = 10
"""Texts of each family made of its markers in any order."""


def test_markers_in_any_order_are_read_as_recorded() -> None:
    lines = Lines()
    for known in FAMILIES:
        its = family(known.family.name)
        drawn = random.Random(its.name)
        bits = [*its.markers, "weather", "now", "{}", '{"city": "x"}', '{"name": "now", "arguments": {}}']
        bits += ["all\n", "x", " ", "\n", '"', "city", ">", "{", "}"]
        for number in range(MARKERS):
            text = "".join(drawn.choices(bits, k=drawn.randrange(3, 12)))
            formed, prompt = drawn.random() < 0.2, drawn.choice(("", "", "<think>\n"))
            found = answered(its, text, prompt=prompt, formed=formed)
            lines.put(f"{its.name}, {number}: {found}")
    compare(RECORDED / "markup_markers.txt", lines)


HARMONY = (
    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>",
    "<|channel|>commentary<|message|>plan<|end|><|start|>assistant to=assistant<|channel|>final<|message|>x",
    "<|channel|>analysis<|channel|>final<|message|>x",
    "<|message|>x<|end|>",
    "<|channel|> final <|message|> x ",
    " to=functions.now<|channel|>commentary<|message|>{} x<|call|>",
    "<|channel|>commentary to=now<|message|>[1]<|call|>",
    "plain text",
    "<|channel|>final<|message|><|end|><|start|>assistant<|channel|>analysis<|message|> a <|end|>",
    "<|channel|>analysis<|message|>hm<|start|>assistant<|channel|>final<|message|>yes",
)
MUSE = (
    "<|message|>yes<|eot|>",
    " to=user<|message|>yes<|eom|><|start|>assistant to=self<|message|>hm<|eom|>",
    " x<|message|>yes",
    " to=weather<|message|>hm<|eom|>",
    ' to=now<|message|><atem:function_calls><atem:invoke name="now"></atem:invoke></atem:function_calls> x',
)
FUNCTIONARY = ("all\nyes", ">>>all\nyes>>>now\n{}", "now\n{}x", "a b\nx", ">>>now\n{} \n>>>all\nx", "all", "")
BARE = (
    ' {"name": "now", "parameters": {}}',
    '{"name": "none", "parameters": {}}',
    '{"name": "now"}',
    '{"parameters": {"a": 1}, "name": "now"}',
    '{"name": "now", "parameters": {}} {"name": "weather", "parameters": {}} x',
    '{"name": "now", "other": 1, "parameters": {}}',
    'x {"name": "now", "parameters": {}}',
    '<|python_tag|>{"name": "now", "parameters": {}, "more": 2}',
    '<|python_tag|>{"name": "now"}; {"name": "bare", "arguments": "{}"}',
)
HERMES = (
    '{"name": "now", "arguments": "{\\"a\\": 1}"}',
    '{"name": "now", "arguments": null}',
    '{"name": "now", "arguments": ""}',
    '{"name": "now", "arguments": "x"}',
    '{"name": "now", "arguments": [1]}',
    '{"arguments": [1], "name": "now"}',
    '{"arguments": {"a": "\u00e9"}, "name": "now", "id": 5}',
    '{"type": "function", "function": {"name": "now", "arguments": {"a": 1}}}',
    '{"type": "function", "function": {"name": "now"}}',
    '{"function": "now"}',
    '{"id": "x", "name": "now", "arguments": {}, "arguments": {"a": 2}}',
    '{"name": "now", "name": "weather", "arguments": {}}',
    '{"name": "now", "arguments": {"a": True, "b": None, "c": False, "d": nan}}',
    '{"name": "now", "arguments": {"a": true, "b": null, "c": [1, -0.5e+3, 0, 10]}}',
    '{"name": "now", "arguments": {"a": 01}}',
    '{"name": "now", "arguments": {"a": "\t\r\n\\x\\\'\\u00e9\\/\\\t"}}',
    '{"name": "now", "arguments": {"a": "\\u00g9"}}',
    '{"name": "now", "arguments": {"a": "\\u00"',
    '{"name": "now", "arguments": { } }',
    '{"name": "now", "arguments": {"a" : [ ] , "b" : { "c" : [ { } , 2 ] } } }',
    '{"name": "now", "arguments": {"a": [1,]}}',
    '{"name": "now", "arguments": {"a": 1,}}',
    '{"name": "now", "arguments": {a: 1}}',
    '{"name": "now" "arguments": {}}',
    '{"name": "now", "arguments": {}, }',
    '[{"name": "now", "arguments": {}}; {"name": "bare"}]',
    '[{"name": "now", "arguments": {}} {"name": "bare"}',
    "{}",
    "[]",
    "",
)
QUOTES = (
    "weather(city='a', days=1)",
    "[weather(city='it''s', days=01), now()]",
    "[weather(city='it's', days=-0.5e3)]",
    '[weather(city="a\\n\\t\\x41\\u00e9\\U0001F600\\q\\\\")]',
    "[weather(city='\\xzz')]",
    "[weather(city='\\u12')]",
    "[weather(city='''a'b''', list=[1, 'x', (2, 3), {'a', 'b'}, {}, {'k': None},])]",
    "[weather(city=Rome)]",
    "[weather(city=NaN)]",
    "[weather(on=TRUE, off=none, x=null)]",
    "[weather('city'='a')]",
    "[weather(city='a' days=1)]",
    "[weather(city='a',)]",
    "[weather(city='a'), now()] x",
    "[now() x]",
    "[now(), ]",
    "now()",
    " now(a={1: 2})",
    "[now(a={'k': [}])]",
    "[now(a='b]",
    "[now(deep=[[[[1]]]])]",
)


def depth(count: int) -> dict[str, Any]:
    found: Any = 1
    for at in range(count):
        found = [found] if at % 2 else {"a": found}
    return {"list": found}


def test_answers_chosen_by_hand_are_read_as_recorded() -> None:
    lines = Lines()
    groups: Sequence[tuple[str, Sequence[str], str, str]] = (
        ("harmony", HARMONY, "", ""),
        ("muse", MUSE, "", ""),
        ("functionary-3.2", FUNCTIONARY, "", ""),
        ("llama-3", BARE, "", ""),
        ("hermes", HERMES, "<tool_call>", "</tool_call> after"),
        ("glm", HERMES, "<tool_call>", "</tool_call> after"),
        ("command", [text.replace("name", "tool_name") for text in HERMES], "<|START_ACTION|>", ""),
        ("lfm2", QUOTES, "<|tool_call_start|>", "<|tool_call_end|>"),
        ("apertus", ('[{"now": {}}, {"bare": "{}"}]', '{"now": 1}', '{"now": {}, "bare": {}}'), "<|tools_prefix|>", ""),
    )  # fmt: skip
    for name, texts, start, end in groups:
        for number, text in enumerate(texts):
            lines.put(f"{name}, {number}: {answered(family(name), start + text + end)}")
            lines.put(f"{name}, {number}, cut: {cut(family(name), start + text)}")
            if number < 10:
                formed = answered(family(name), start + text, formed=True)
                lines.put(f"{name}, {number}, formed: {formed}")
                lines.put(f"{name}, {number}, no tools: {answered(family(name), start + text, tools=())}")
    for name, its, write in ways():
        for count in (62, 63, 64, 65):
            lines.put(f"{name}, depth {count}: {answered(its, write([('weather', depth(count))]))}")
    compare(RECORDED / "markup_chosen.txt", lines)


EVIDENCE = (
    "",
    *("".join(pair) for pair in THINKING),
    *(start for start, _ in THINKING),
    *(end for _, end in THINKING),
    "".join(f"{start}{end}" for start, end in THINKING),
)


def test_families_are_found_as_recorded() -> None:
    lines = Lines()
    for known in FAMILIES:
        name = known.family.name
        firsts = [group[0] for group in known.signs]
        found = family_of(" ".join(firsts))
        lines.add(f"{name}, signs", [found and found.family.name, known.signs, known.id_pattern])
        lines.add(f"{name}, markers", known.family.markers)
        lines.add(f"{name}, format", repr(known.family.format))
        for at in range(len(known.signs)):
            for sign in known.signs[at]:
                given = [*firsts[:at], sign, *firsts[at + 1 :]]
                less = family_of(" ".join([*firsts[:at], *firsts[at + 1 :]]))
                more = family_of(" ".join(given))
                told_of = [more and more.family.name, less and less.family.name]
                lines.add(f"{name}, {sign!a}", told_of)
        thinks = reading_of(" ".join([*firsts, "<think></think>[THINK][/THINK]"])).family
        lines.add(f"{name}, thinking", thinks.thinking)
    for number, text in enumerate(EVIDENCE):
        its = reading_of(text).family
        prompts = ("", text, "<think>", "<think>\n \n", "<think>x", "Here are my reasoning steps:")
        lines.add(f"reasoning {number}", [its.name, its.thinking, *map(its.opened, prompts)])
    compare(RECORDED / "markup_families.txt", lines)


SCHEMAS: Sequence[Any] = (
    None, {}, True, {"type": "string"}, {"type": "TEXT"}, {"type": "str"}, {"type": "integer"}, {"type": "number"},
    {"type": "boolean"}, {"type": "null"}, {"type": "object"}, {"type": "array"}, {"type": ["string", "integer"]},
    {"type": ["number", "string", "null"]}, {"type": ["object", "string"]}, {"type": ["array", "string"]},
    {"type": "string", "nullable": True}, {"type": "integer", "nullable": True}, {"type": "string", "nullable": 1},
    {"anyOf": [{"type": "string"}, {"type": "boolean"}]}, {"oneOf": [{"type": "integer"}, {}]}, {"anyOf": [{}]},
    {"allOf": [{"type": ["string", "null"]}, {"type": ["null", "integer"]}]}, {"allOf": [{}]}, {"allOf": [{}, {"type": "null"}]},
    {"const": "5"}, {"const": 5}, {"const": None}, {"enum": ["5", 5, "true", None]}, {"enum": [True, 1.5, [], {}]},
    {"type": ["string", "integer"], "enum": ["5", 7]}, {"enum": "x"}, {"properties": {}}, {"items": {}}, {"type": 5},
    {"anyOf": [{"type": "string"}], "nullable": True}, {"description": "x", "nullable": True}, {"anyOf": "x", "type": []},
)  # fmt: skip
WRITTEN = (
    "", " ", "x", "5", " 5 ", "-5", "5.5", "1e400", "05", "true", "True", "null", "none", "None", "NaN", "[1]", "[1, 'a']",
    "{'a': 1}", '{"a": "\u00e9"}', '"5"', '"a', "{1, 2}", "(1, 2)", "1j", "{", "b'x'", "a\nb", "\\", '"', "[" * 3 + "]" * 3,
)  # fmt: skip


def test_values_are_read_as_recorded() -> None:
    lines = Lines()
    for text in WRITTEN:
        lines.add(ascii(text), [values.value_json(text), values.unquoted(text)])
    for number, schema in enumerate(SCHEMAS):
        kinds = [values.kinds_of(schema), values.takes_text(schema), values.is_plain_text(schema)]
        firsts = "".join(c for c in ' \nn{["t5-fx' if values.begins_other(c, schema))
        lines.add(f"{number} {schema}", [*kinds, firsts])
        for text in WRITTEN:
            lines.add(f"{number} {text!a}", values.typed(text, schema))
    compare(RECORDED / "markup_values.txt", lines)


REFERRING: Sequence[dict[str, Any]] = (
    {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}},
    {"$ref": "#/$defs/a", "title": "x", "$defs": {"a": {"type": "integer", "title": "y"}}},
    {"$ref": "#/$defs/a~1b~0", "$defs": {"a/b~": {"type": "null"}}},
    {"$ref": "#/$defs/b", "$defs": {"a": {}}},
    {"$ref": "other#/a"},
    {"$ref": "#/" + "a" * 1023, "a" * 1023: {"type": "null"}},
    {"$ref": "#/" + "a" * 1022, "a" * 1022: {"type": "null"}},
    {"$ref": 5},
    {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
    {"$ref": "#/$defs/a", "$defs": {"a": [1]}},
    {"allOf": [{"type": "string"}], "title": "x"},
    {"allOf": [{"type": "string"}, {}]},
    {"allOf": ["x"]},
    {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "integer"}}, "enum": [{"$ref": "#/$defs/a"}]},
    {"properties": {"enum": {"$ref": "#/x"}}, "items": [{"$ref": "#/x"}, 5], "x": {"const": 1}},
    {"$ref": "#/0", **{str(at): {"$ref": f"#/{at + 1}"} for at in range(20)}, "20": {"type": "null"}},
)


def test_references_are_replaced_as_recorded() -> None:
    lines = Lines()
    for number, schema in enumerate(REFERRING):
        lines.add(str(number), told(lambda: inlined(schema)))
    wide = {"a": [1] * 20_010, "b": {"$ref": "#/c"}, "c": {"type": "null"}}
    for count in (19_990, 19_995, 19_997, 19_998, 19_999, 20_000):
        found = inlined({**wide, "a": [1] * count})
        lines.add(f"wide {count}", {**found, "a": len(found["a"])})
    compare(RECORDED / "markup_references.txt", lines)
