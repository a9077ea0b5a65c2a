"""What clients ask of the form of an answer, as OpenAI, vLLM and llama.cpp have them write it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.gateway.dialects.forms import (
    CHOICES_MAX,
    REGEX_CHARACTERS_MAX,
    SCHEMA_BYTES_MAX,
    ToolUse,
    form_of,
)
from reconciler.gateway.dialects.openai.completions import parse_completion
from reconciler.gateway.dialects.openai.request import parse_chat
from reconciler.gateway.errors import ApiError
from reconciler.wire.form import FREE, Form

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}}
TEXT = json.dumps(SCHEMA, separators=(",", ":"))
NAMED = {"name": "n", "schema": SCHEMA}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **more}}


TOOLS = [tool("f"), tool("g", strict=True)]


def form(**fields: Any) -> Form:
    body = {"messages": [{"role": "user", "content": "Hello"}], **fields}
    return parse_chat(json.dumps(body).encode(), 1).choices[0].form


def fault(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as refused:
        form(**fields)
    assert refused.value.status == 400
    return refused.value


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": NAMED}},
            "response_format.json_schema.schema",
        ),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, "response_format.schema"),
        ({"guided_json": SCHEMA}, "guided_json"),
        ({"guided_json": json.dumps(SCHEMA)}, "guided_json"),
        ({"structured_outputs": {"json": SCHEMA}}, "structured_outputs.json"),
        ({"json_schema": SCHEMA}, "json_schema"),
    ],
)
def test_a_schema_keeps_the_order_of_its_properties_and_where_it_stands(
    fields: dict[str, Any], path: str
) -> None:
    assert form(**fields) == Form(schema=TEXT, schema_path=path)
    prompted = parse_completion(json.dumps({"prompt": "a", **fields}).encode(), 1)
    assert prompted.choices[0].form == Form(schema=TEXT, schema_path=path)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response_format": None},
        {"response_format": {"type": "text"}},
        {"structured_outputs": {"json": None, "json_object": False}},
        {"guided_json": None},
        {"tools": [tool("f")], "tool_choice": "auto"},
        {"tools": TOOLS, "tool_choice": "none"},
    ],
)
def test_whoever_asks_for_nothing_gets_a_free_answer(fields: dict[str, Any]) -> None:
    assert form(**fields) == FREE
    assert FREE.free


def test_any_object_will_do_where_no_schema_is_given() -> None:
    for fields in (
        {"response_format": {"type": "json_object"}},
        {"structured_outputs": {"json_object": True}},
    ):
        assert form(**fields).schema == '{"type":"object"}'


def test_choices_are_texts_and_no_expressions() -> None:
    assert form(guided_choice=["a.b", "c"]).regex == r"(?:a\.b)|(?:c)"
    assert form(structured_outputs={"regex": "a+"}).regex == "a+"


@pytest.mark.parametrize(
    ("choice", "required", "names"),
    [
        ("required", True, ()),
        ({"type": "function", "function": {"name": "f"}}, True, ("f",)),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [tool("g")]}}, False, ("g",)),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("g"), tool("f")]}},
            True,
            ("g", "f"),
        ),
    ],
)
def test_a_choice_says_which_tools_may_and_have_to_be_called(
    choice: Any, required: bool, names: tuple[str, ...]
) -> None:
    found = form(tools=TOOLS, tool_choice=choice)
    assert (found.calls_required, found.callable, found.strict) == (required, names, ("g",))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "json"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}, "response_format.json_schema.schema"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": 5}, "guided_json"),
        ({"guided_json": {"enum": ["x" * SCHEMA_BYTES_MAX]}}, "guided_json"),
        ({"guided_regex": ""}, "guided_regex"),
        ({"guided_regex": "a" * (REGEX_CHARACTERS_MAX + 1)}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["a", 5]}, "guided_choice"),
        ({"guided_choice": ["a"] * (CHOICES_MAX + 1)}, "guided_choice"),
        ({"guided_json": {}, "response_format": {"type": "json_object"}}, "guided_json"),
        ({"structured_outputs": {"grammar": "a"}}, "structured_outputs.grammar"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "h"}}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tools": TOOLS, "tool_choice": {"type": "custom"}}, "tool_choice.type"),
        ({"tools": TOOLS, "tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
            "tool_choice.allowed_tools.tools",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_its_path(fields: dict[str, Any], param: str) -> None:
    assert fault(**fields).param == param


USES = st.builds(
    ToolUse,
    offered=st.booleans(),
    required=st.booleans(),
    names=st.lists(st.sampled_from("fgx"), max_size=2, unique=True).map(tuple),
)


@example(content=None, use=ToolUse(), strict=["g"], known=("f", "g"))
@example(content=Form(schema=TEXT), use=ToolUse(offered=False), strict=["g"], known=("f", "g"))
@example(content=None, use=ToolUse(required=True), strict=[], known=("f", "g"))
@example(content=None, use=ToolUse(names=("f",)), strict=["f", "g"], known=("f", "g"))
@example(content=None, use=ToolUse(required=True), strict=[], known=())
@example(content=None, use=ToolUse(names=("x",)), strict=[], known=("f", "g"))
@given(
    content=st.sampled_from([None, FREE, Form(schema=TEXT)]),
    use=USES,
    strict=st.lists(st.sampled_from("fg"), unique=True),
    known=st.sampled_from([(), ("f", "g")]),
)
def test_the_form_of_an_answer_has_the_calls_that_it_may_and_must_have(
    content: Form | None, use: ToolUse, strict: list[str], known: tuple[str, ...]
) -> None:
    wrong = ""
    if not known and (use.required or use.names):
        wrong = "there are no tools to call"
    elif "x" in use.names:
        wrong = "there is no tool 'x'"
    if wrong:
        with pytest.raises(ApiError, match=wrong) as refused:
            form_of(content, use, strict, known)
        assert (refused.value.status, refused.value.param) == (400, "tool_choice")
        return
    found = form_of(content, use, strict, known)
    assert (found.calls_required, found.callable) == (use.required, use.names)
    assert found.strict == (tuple(strict) if use.offered else ())
    assert found.schema == (content.schema if content else None)
