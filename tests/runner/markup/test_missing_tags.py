"""Calls with a tag for each argument are read where models forget tags, and a value is what its schema says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.runner.markup.tagged_calls import TaggedCalls
from tests.examples import examples

from .reading import BY_NAME, Seen, read
from .test_calls import cut
from .writers import WRITERS, Call

TAGGED = [name for name, known in BY_NAME.items() if isinstance(known.family.format, TaggedCalls)]
REGIONS = [name for name in TAGGED if name != "muse" and BY_NAME[name].family.format.region]  # type: ignore[union-attr]
plain = st.text("abcXYZ 019é\n.-/{}[]\"'", min_size=1, max_size=12).map(lambda text: f"a{text}b")
arguments = st.dictionaries(st.sampled_from(["city", "state", "path", "x_1"]), plain, min_size=2, max_size=4)
kinds: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "integer": st.integers(-(10**9), 10**9),
    "number": st.floats(-1e6, 1e6),
    "object": st.dictionaries(st.sampled_from("abc"), st.integers() | plain, max_size=2),
    "array": st.lists(st.integers() | plain, max_size=3),
}


def tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def texts_tool(call: Call) -> dict[str, Any]:
    return tool(call[0], {key: {"type": "string"} for key in call[1]})


def both(family: str, text: str, tools: list[dict[str, Any]], seed: int) -> Seen:
    """What a text is read as, whole and in pieces alike."""
    whole = read(BY_NAME[family].family, [text], tools)
    in_pieces = read(BY_NAME[family].family, cut(text, seed), tools)
    assert (in_pieces.calls, in_pieces.content) == (whole.calls, whole.content)
    return whole


def format_of(family: str) -> TaggedCalls:
    found = BY_NAME[family].family.format
    assert isinstance(found, TaggedCalls)
    return found


@pytest.mark.parametrize("family", TAGGED)
@settings(max_examples=examples(20))
@given(given_arguments=arguments, which=st.integers(0, 3), seed=st.integers(0, 2**32))
def test_a_value_ends_where_the_next_argument_begins(
    family: str, given_arguments: dict[str, str], which: int, seed: int
) -> None:
    call: Call = ("look", given_arguments)
    ends = format_of(family).value_ends
    written = WRITERS[family]([call])
    parts = written.split(ends)
    missing = which % (len(parts) - 1)
    text = ends.join(parts[: missing + 1]) + ends.join(["", *parts[missing + 1 :]])[len(ends) :]
    seen = both(family, text, [texts_tool(call)], seed)
    ((name, found),) = seen.parsed
    tidy = {key: value.strip() for key, value in found.items()}
    assert (name, tidy) == ("look", {key: value.strip() for key, value in given_arguments.items()})
    assert seen.content.strip() == ""


@settings(max_examples=examples(20))
@given(given_arguments=arguments, seed=st.integers(0, 2**32))
def test_a_value_that_is_on_the_line_of_its_tag_ends_there_too(
    given_arguments: dict[str, str], seed: int
) -> None:
    plain = {key: value.strip().replace("\n", " ") for key, value in given_arguments.items()}
    written = "".join(f"<parameter={key}>{value}" for key, value in plain.items())
    text = f"<tool_call><function=look>{written}</function></tool_call>"
    seen = both("qwen3-coder", text, [texts_tool(("look", dict(plain)))], seed)
    assert (seen.parsed, seen.content) == ([("look", plain)], "")


@pytest.mark.parametrize("family", REGIONS)
@settings(max_examples=examples(20))
@given(given_arguments=arguments, begins=st.booleans(), ends=st.booleans(), seed=st.integers(0, 2**32))
def test_calls_need_no_tag_around_them(
    family: str, given_arguments: dict[str, str], begins: bool, ends: bool, seed: int
) -> None:
    call: Call = ("look", given_arguments)
    written = WRITERS[family]([call])
    format = format_of(family)
    if not begins:
        written = written[written.index(format.call) :]
    if not ends:
        written = written[: written.rindex(format.ends) + len(format.ends)]
    seen = both(family, f"I look.\n{written}", [texts_tool(call)], seed)
    assert (seen.parsed, seen.content.strip()) == ([call], "I look.")


@pytest.mark.parametrize("family", REGIONS)
def test_without_the_tag_around_it_a_tool_that_nobody_offers_is_not_called(family: str) -> None:
    written = WRITERS[family]([("look", {"at": "x"})])
    text = written[written.index(format_of(family).call) :]
    seen = read(BY_NAME[family].family, [text], [tool("other", {})])
    assert seen.calls == []
    assert "look" in seen.content


@pytest.mark.parametrize("family", TAGGED)
def test_a_value_may_mention_an_argument_that_is_written_or_that_no_tool_has(family: str) -> None:
    format = format_of(family)
    marks = [
        format.value + format.key_written.format(key=key, textual="true", type="string")
        for key in ("at", "q")
    ]
    call: Call = (
        "look",
        {"at": "x", "text": "".join(f"\n{mark}{format.value_begins}y" for mark in marks) + "z"},
    )
    assert both(family, WRITERS[family]([call]), [texts_tool(call)], 1).parsed == [call]


@pytest.mark.parametrize("family", TAGGED)
def test_a_value_may_mention_the_tag_that_ends_it(family: str) -> None:
    format = format_of(family)
    end = format.value_ends
    text: Call = ("look", {"at": f"a{end}b {end} c", "to": f"{end}d"})
    assert both(family, WRITERS[family]([text]), [texts_tool(text)], 1).parsed == [text]
    whole: Call = ("look", {"at": {"a": f"b{end}c", "d": f"{end}{format.ends}e"}, "to": [f"{end}f"]})
    tools = [tool("look", {"at": {"type": "object"}, "to": {"type": "array"}})]
    assert both(family, WRITERS[family]([whole]), tools, 1).parsed == [whole]


@pytest.mark.parametrize("family", TAGGED)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_a_union_is_what_was_written_of_it(family: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(kinds)))
    schema = data.draw(
        st.sampled_from(
            (
                {"type": ["string", kind]},
                {"anyOf": [{"type": "string"}, {"type": kind}]},
                {"oneOf": [{"type": kind}, {"enum": ["a", "b"]}, {"type": "string"}]},
            )
        )
    )
    value = data.draw(kinds[kind] | plain)
    call: Call = ("look", {"at": value})
    text = WRITERS[family]([call])
    tools = [tool("look", {"at": schema})]
    assert both(family, text, tools, data.draw(st.integers(0, 2**32))).parsed == [call]


@pytest.mark.parametrize(
    ("schema", "written", "value"),
    [
        ({"type": ["string", "null"]}, "null", None),
        ({"type": "string", "nullable": True}, "null", None),
        ({"type": ["string", "null"]}, "nullable", "nullable"),
        ({"type": "string"}, "null", "null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "42", 42),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "018956", "018956"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "2 dollars", "2 dollars"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "7", 7),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, '{"a": 1}', {"a": 1}),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, "{not json", "{not json"),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, "[1]", "[1]"),
        ({"enum": ["1", 1]}, "1", "1"),
        ({"enum": ["a", None]}, "null", None),
    ],
)  # fmt: skip
def test_what_is_no_other_value_of_a_union_is_text(schema: Any, written: str, value: Any) -> None:
    text = f"<tool_call>look<arg_key>at</arg_key><arg_value>{written}</arg_value></tool_call>"
    assert both("glm", text, [tool("look", {"at": schema})], 3).parsed == [("look", {"at": value})]


@pytest.mark.parametrize("family", ["qwen3-coder", "deepseek-v3.2", "glm", "minimax-m2"])
@pytest.mark.parametrize("wrapper", ["arguments", "input"])
def test_arguments_that_are_wrapped_once_too_often_are_unwrapped(family: str, wrapper: str) -> None:
    inner = {"at": "x", "times": 2}
    text = WRITERS[family]([("look", {wrapper: inner})])
    declared = tool("look", {"at": {"type": "string"}, "times": {"type": "integer"}})
    assert both(family, text, [declared], 5).parsed == [("look", inner)]
    own = tool("look", {wrapper: {"type": "object"}})
    assert both(family, text, [own], 5).parsed == [("look", {wrapper: inner})]


def test_prose_within_the_tag_is_no_call() -> None:
    for prose in ("I will look now.", json.dumps({"a": 1}), "look at this"):
        text = f"<tool_call>{prose}</tool_call>"
        seen = both("glm", text, [tool("look", {})], 2)
        assert (seen.calls, seen.content) == ([], text)


@pytest.mark.parametrize(
    "value",
    ["</function>", "</function>\n", "\n</function>\n\n", "a</function></function>", "</function>\nx"],
)
def test_a_value_that_mentions_the_end_of_a_call_keeps_its_own_lines_and_no_other(value: str) -> None:
    call: Call = ("look", {"city": value})
    assert both("qwen3-coder", WRITERS["qwen3-coder"]([call]), [texts_tool(call)], 7).parsed == [call]
