"""What the grammar of a family allows, its reader reads as the answer that was asked for.

Answers are drawn at random, byte by byte, with markers wherever they can stand: once for vocabularies that have the markers
as tokens, once for others.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from reconciler.runner.forms.schemas import Inexpressible
from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.families import FAMILIES
from reconciler.wire.form import Form

from .walks import Read, Vocabulary, endings, family, function, grammar, matcher, read, tokens_of, walk

NAMES = [known.family.name for known in FAMILIES]
THINKING = (("<think>", "</think>"),)
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "note": {"anyOf": [{"type": "string", "minLength": 2, "maxLength": 6}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2},
        "code": {"type": "string", "pattern": "^[A-Z]{2}/\\d$"},
        "at": {"type": "string", "format": "date"},
        "place": {"$ref": "#/$defs/place"},
    },
    "required": ["city", "days", "note", "code"],
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "inside": {"type": "boolean"}},
            "required": ["x"],
        }
    },
}
SWITCH = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
TOOLS = (function("get_weather", WEATHER), function("get", SWITCH))
SCHEMAS = {"get_weather": WEATHER, "get": SWITCH}
CONTENT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
SEEDS = 1

families = pytest.mark.parametrize("name", NAMES)
vocabularies = pytest.mark.parametrize("tokens", [True, False], ids=["tokens", "text"])


def check(found: Read) -> None:
    for name, arguments in found.calls:
        jsonschema.validate(json.loads(arguments), SCHEMAS[name])


def drawn(
    form: Form, known: Family, tokens: bool, tools: Any = TOOLS, several: bool = True, prompt: str = ""
) -> list[str]:
    vocabulary = Vocabulary(tokens_of(known) if tokens else ())
    written = grammar(form, known, vocabulary, tools, several, prompt)
    found = [walk(written, vocabulary, seed, endings(known)) for seed in range(SEEDS)]
    return [text for text in found if text is not None]


@families
@vocabularies
def test_calls_that_are_required_satisfy_their_schemas(name: str, tokens: bool) -> None:
    known = family(name)
    for text in drawn(Form(calls_required=True), known, tokens):
        found = read(text, known, TOOLS)
        assert found.calls, text
        assert (found.content.strip(), found.withdrawn, found.ended) == ("", 0, len(found.calls)), text
        check(found)


UNION = {
    "type": "object",
    "properties": {
        "a": {
            "anyOf": [{"type": "string", "pattern": "^[0-9a]{1,2}$"}, {"type": "integer", "minimum": 1000}]
        },
        "b": {"anyOf": [{"enum": ["1", "x"]}, {"type": "integer", "minimum": 1000}]},
    },
    "required": ["a", "b"],
}


@pytest.mark.parametrize("name", ["glm", "qwen3-coder", "minimax-m3"])
@pytest.mark.parametrize("seed", range(5))
def test_a_text_that_would_be_read_as_a_number_is_not_written(name: str, seed: int) -> None:
    known, tools = family(name), (function("get", UNION),)
    vocabulary = Vocabulary(())
    written = grammar(Form(calls_required=True), known, vocabulary, tools, False)
    text = walk(written, vocabulary, seed, endings(known))
    assert text is not None
    for _, arguments in read(text, known, tools).calls:
        jsonschema.validate(json.loads(arguments), UNION)


@families
def test_one_call_of_the_tool_that_is_named_is_all(name: str) -> None:
    known = family(name)
    for text in drawn(Form(calls_required=True, callable=("get",)), known, True, several=False):
        found = read(text, known, TOOLS)
        assert [called for called, _ in found.calls] == ["get"], text
        check(found)


def test_a_call_of_muse_stands_within_the_tag_that_begins_calls() -> None:
    for text in drawn(Form(calls_required=True, callable=("get",)), family("muse"), True, several=False):
        assert " to=get<|message|><atem:function_calls>" in text


@pytest.mark.parametrize("value", ['<|"|>x<|"|>', "1", "[]", "{}", '{b:[1,true,{c:<|"|>x<|"|>}]}'])
def test_an_argument_that_may_be_anything_may_have_values_within_it(value: str) -> None:
    known, vocabulary = family("gemma-4"), Vocabulary(())
    anything: dict[str, object] = {"properties": {"a": {}}}
    written = grammar(Form(calls_required=True), known, vocabulary, (function("get", anything),))
    text = f"<|tool_call>call:get{{a:{value}}}<tool_call|>"
    tokens = [vocabulary.bytes.index(bytes([byte])) for byte in text.encode()]
    assert matcher(written, vocabulary).try_consume_tokens(tokens) == len(tokens)


@pytest.mark.second_tier
@families
def test_content_satisfies_its_schema_unless_there_are_calls(name: str) -> None:
    known = family(name)
    for text in drawn(Form(schema=json.dumps(CONTENT)), known, True):
        found = read(text, known, TOOLS, formed=True)
        if not found.calls:
            jsonschema.validate(json.loads(found.content), CONTENT)


@pytest.mark.second_tier
@families
@vocabularies
def test_calls_within_free_text_satisfy_the_schemas_of_strict_tools(name: str, tokens: bool) -> None:
    known = family(name)
    strict = ("get", "get_weather")
    for text in drawn(Form(strict=strict), known, tokens):
        found = read(text, known, TOOLS)
        assert not found.withdrawn, text
        check(found)


@pytest.mark.second_tier
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"harmony", "muse", "functionary-3.2"}))
@pytest.mark.parametrize(
    "prompt", ["", "<think>\n", "<think>\n\n</think>\n\n"], ids=["may reason", "reasons", "has reasoned"]
)
def test_the_form_holds_from_the_end_of_the_reasoning_on(name: str, prompt: str) -> None:
    known = family(name, THINKING)
    for text in drawn(Form(schema=json.dumps(CONTENT)), known, True, (), prompt=prompt):
        found = read(text, known, (), prompt, formed=True)
        jsonschema.validate(json.loads(found.content), CONTENT)
        assert not found.reasoning or not prompt.endswith("</think>\n\n")


@pytest.mark.parametrize(
    ("name", "parameters", "path"),
    [
        ("glm", {"properties": {"a": {"type": "string", "pattern": "(?=x)"}}}, ".properties.a.pattern"),
        ("qwen3-coder", {"anyOf": [SWITCH, WEATHER]}, ".anyOf"),
        ("glm", {"properties": {"a": {"enum": ["</arg_value>"]}}}, ".properties.a"),
        ("minimax-m3", {"properties": {"a": {"anyOf": [SWITCH, {"type": "array"}]}}}, ".properties.a"),
        ("gemma-4", {"properties": {"a": {"type": "object"}}}, ".properties.a"),
        ("gemma-4", {"properties": {"a": {"enum": ["x", '<|"|>']}}}, ".properties.a"),
        ("hermes", {"properties": {"a": {"not": {}}}}, ".properties.a.not"),
        ("hermes", {"type": "array"}, ".type"),
    ],
)
def test_what_a_family_cannot_be_held_to_is_named_by_its_path(name: str, parameters: Any, path: str) -> None:
    tools = (function("other", SWITCH), function("f", parameters))
    with pytest.raises(Inexpressible) as refused:
        grammar(Form(calls_required=True), family(name), Vocabulary(()), tools)
    assert refused.value.path == "tools[1].function.parameters" + path
