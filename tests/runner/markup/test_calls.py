"""Calls that each family writes are read back exactly, wherever the text is cut."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reconciler.runner.markup.families import FAMILIES
from reconciler.runner.markup.tagged_calls import TaggedCalls
from reconciler.runner.markup.values import kinds_of

from .reading import BY_NAME, read, tools_for
from .writers import OTHER_WAYS, WRITERS, Call, Writer

WAYS = [*WRITERS.items(), *OTHER_WAYS]
NAMES = [f"{name}-{number}" for number, (name, _) in enumerate(WAYS)]

MARKUP = (
    '"', "'", "\\", "\n", "\t", "{", "}", "[", "]", "\\n", "\\u0041", "<tool_call>", "</tool_call>", "</think>",
    "<think>", "<|im_end|>", "[TOOL_CALLS]", "[ARGS]", "<|tool_call_end|>", "<tool_call|>", "</parameter>",
    "</function>", "<|END_ACTION|>", "<|message|>", ">>>", "```", "<arg_key>", "é", "🦙", "  ", " ", ",", ":",
)  # fmt: skip
words = st.sampled_from(
    ["at", "city", "path", "File_2", "x", "_y", "query", "contentText", "limit", "days"]
) | st.integers(0, 99).map("k{}".format)
texts = st.lists(st.sampled_from(MARKUP) | st.text(max_size=6), max_size=6).map("".join)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
scalars = texts | numbers | st.booleans() | st.none()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
uniform = st.recursive(
    texts | st.integers() | st.booleans(),
    lambda inner: (
        inner.flatmap(lambda each: st.just([each, each])) | st.dictionaries(words, inner, max_size=3)
    ),
    max_leaves=5,
)
"""Values whose types a schema can tell, without null: what MiniMax M3's format can write."""


def calls_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Call]]:
    arguments = st.dictionaries(words, inner, max_size=4)
    return st.lists(st.tuples(words, arguments), min_size=1, max_size=3, unique_by=lambda call: call[0])


def cut(text: str, seed: int) -> list[str]:
    """Cut a text into pieces, of one character or many."""
    random = Random(seed)
    count = random.choice((1, 3, 10, len(text)))
    at = sorted({0, len(text), *(random.randrange(len(text) + 1) for _ in range(count))})
    return [text[a:b] for a, b in pairwise(at)]


def all_texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in all_texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in all_texts(each)]
    return [value] if isinstance(value, str) else []


def can_be_written(family: str, calls: list[Call]) -> bool:
    """Whether the format has one reading for these: some cannot quote what ends a value."""
    format = BY_NAME[family].family.format
    written = [text for _, arguments in calls for text in all_texts(arguments)]
    if isinstance(format, TaggedCalls):
        ends = (
            re.escape(format.value_ends)
            + r"\s*("
            + re.escape(format.value)
            + "|"
            + re.escape(format.ends)
            + ")"
        )
        ambiguous = (text + format.value_ends for text in written)
        if any(len(re.findall(ends, text + format.ends)) > 1 for text in ambiguous):
            return False
        if any(format.value_ends in text for text in written):
            return False
        return family != "minicpm" or not any("]]>" in text or "<![CDATA[" in text for text in written)
    if family in ("gemma-4", "function-gemma"):
        quote = '<|"|>' if family == "gemma-4" else "<escape>"
        return not any(quote in text + quote[:-1] for text in written)
    if family == "minimax-m3":
        return not any("]" in text for text in written)
    return True


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({}, {"string"}),
        ({"type": "integer"}, {"integer"}),
        (
            {"allOf": [{"type": ["integer", "string"]}, {"description": "d"}, {"type": "integer"}]},
            {"integer"},
        ),
        ({"allOf": [{"description": "d"}]}, {"string"}),
        ({"anyOf": [{"type": "integer"}, {"description": "d"}, {"const": None}]}, {"integer", "null"}),
        ({"type": "integer", "nullable": True}, {"integer", "null"}),
        ({"enum": [1, "a"]}, {"integer", "string"}),
        ({"properties": {}}, {"object"}),
        ({"items": {}}, {"array"}),
    ],
)
def test_a_schema_says_which_types_an_argument_may_have(schema: Any, kinds: set[str]) -> None:
    assert kinds_of(schema) == kinds


def test_every_family_is_written() -> None:
    assert list(WRITERS) == [known.family.name for known in FAMILIES]


def check(family: str, write: Writer, data: st.DataObject) -> None:
    calls = data.draw(calls_of(uniform if family == "minimax-m3" else values))
    assume(can_be_written(family, calls))
    text = write(calls)
    tools = tools_for(calls)
    whole = read(BY_NAME[family].family, [text], tools)
    in_pieces = read(BY_NAME[family].family, cut(text, data.draw(st.integers(0, 2**32))), tools)
    assert whole.parsed == calls
    assert in_pieces.calls == whole.calls
    assert (whole.content, whole.reasoning, whole.withdrawn) == ("", "", [])
    assert (in_pieces.content, in_pieces.reasoning, in_pieces.withdrawn) == ("", "", [])


@pytest.mark.parametrize(("family", "write"), WAYS, ids=NAMES)
@settings(max_examples=8)
@given(data=st.data())
def test_calls_are_read_back_exactly_wherever_they_are_cut(
    family: str, write: Writer, data: st.DataObject
) -> None:
    check(family, write, data)


@pytest.mark.second_tier
@pytest.mark.timeout(900)
@settings(max_examples=10_000)
@given(way=st.sampled_from(WAYS), data=st.data())
def test_ten_thousand_calls_are_read_back_exactly(way: tuple[str, Writer], data: st.DataObject) -> None:
    check(*way, data)


@pytest.mark.parametrize(("family", "write"), WAYS, ids=NAMES)
def test_a_call_is_read_character_by_character_with_text_around_it(family: str, write: Writer) -> None:
    calls: list[Call] = [("look", {"at": 'Zoë "</b>"\n', "times": 3, "deep": {"x": [1, 2]}}), ("stop", {})]
    text = write(calls)
    seen = read(BY_NAME[family].family, text, tools_for(calls))
    assert seen.parsed == calls
    assert seen.content == ""
    assert all(json.loads(arguments) is not None for _, _, arguments in seen.calls)


@pytest.mark.parametrize("family", list(WRITERS))
def test_nothing_is_a_call_where_no_tools_are_offered(family: str) -> None:
    text = WRITERS[family]([("look", {"at": "x"})])
    seen = read(BY_NAME[family].family, [text], [])
    assert seen.calls == []
    assert "look" in seen.content
