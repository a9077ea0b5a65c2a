"""What is sent instead of what a chat template does not take, for each trait of templates."""

from __future__ import annotations

import copy
import dataclasses
import json
import time
from typing import Any

import pytest

from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.families import FAMILIES
from reconciler.runner.requests.calls import as_object, written
from reconciler.runner.requests.shaping import Shaped, shape
from reconciler.runner.requests.traits import Traits

USER = {"role": "user", "content": "hi"}
PLAIN = Family("plain")
WHOLE = {"path": 'a"\\\n{é', "n": [1, {"b": None, "c": True}], "z": -1.5, "": "e"}


def called(*names: str, text: str = "", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    calls = [
        {"id": f"id-{name}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for name in names
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls, **more}


def result(name: str, text: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"id-{name}", "content": text}


def sent(messages: list[dict[str, Any]], **traits: Any) -> Shaped:
    return shape(copy.deepcopy(messages), (), dataclasses.replace(Traits(), **traits), PLAIN, "")


def names(shaped: Shaped) -> list[str]:
    """Each message as its role, or the tool that it calls or is of."""
    return [
        " ".join(call["function"]["name"] for call in message.get("tool_calls", ()))
        or (f"={message['name']}" if message["role"] == "tool" else message["role"])
        for message in shaped.messages
    ]


def test_a_conversation_that_is_taken_is_sent_as_it_is() -> None:
    messages = [USER, called("a", "b", text="I look."), result("a"), result("b"), USER]
    shaped = sent(messages)
    assert shaped.replaced == {}
    assert names(shaped) == ["user", "a b", "=a", "=b", "user"]


def test_calls_of_one_turn_are_made_one_after_the_other_each_with_its_result() -> None:
    shaped = sent(
        [USER, called("a", "b", "c", text="I look."), result("b"), result("a")], parallel_calls=False
    )
    assert names(shaped) == ["user", "a", "=a", "b", "=b", "c"]
    assert [message["content"] for message in shaped.messages] == ["hi", "I look.", "done", "", "done", ""]
    assert shaped.replaced == {"parallel-calls": 3}


@pytest.mark.parametrize("end", range(1, len(json.dumps(WHOLE)) + 1))
def test_arguments_that_were_cut_off_end_where_they_were_cut(end: int) -> None:
    found = as_object(json.dumps(WHOLE)[:end])
    assert list(found) == list(WHOLE)[: len(found)]
    for key in list(found)[:-1]:
        assert found[key] == WHOLE[key]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": {"b": 1} "c', {"a": {"b": 1}}),
        ('{"a": {"b": 1} "c": tr', {"a": {"b": 1}}),
        ('{"a": [1] "c', {"a": [1]}),
        ('{"a": [[1] tr', {"a": [[1]]}),
        ('{"a": [{"b": 1} 2', {"a": [{"b": 1}]}),
        ('{"a": {}', {"a": {}}),
        ('{"a": {} ', {"a": {}}),
        ('{"a": {},', {"a": {}}),
    ],
)
def test_arguments_that_were_cut_off_behind_an_object_or_a_list_keep_it(
    text: str, found: dict[str, Any]
) -> None:
    assert as_object(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("null", {}),
        ("[1,2]", {"arguments": [1, 2]}),
        ("5", {"arguments": 5}),
        ('"text"', {"arguments": "text"}),
        ("text", {"arguments": "text"}),
        ("{path: 'a'", {"arguments": "{path: 'a'"}),
        ('{"a": 1}}', {"arguments": '{"a": 1}}'}),
        ("{" * 100_000, {"arguments": "{" * 100_000}),
    ],
)
def test_arguments_that_are_no_object_stand_in_one(text: str, found: Any) -> None:
    assert as_object(text) == found
    (_, turn) = sent([USER, called("a", arguments=text)], any_arguments=False).messages
    assert turn["tool_calls"][0]["function"]["arguments"] == found


def test_text_beside_a_call_comes_before_it_or_is_said_to_be_left_out() -> None:
    messages = [USER, called("a", text="I look."), result("a")]
    apart = sent(messages, text_with_calls=False)
    assert [message["content"] for message in apart.messages] == ["hi", "I look.", "", "done"]
    alone = sent(messages, text_with_calls=False, text_before_calls=False)
    assert names(alone) == ["user", "a", "=a"]
    assert apart.replaced == alone.replaced == {"call-texts": 1}


def test_text_ends_the_reasoning_where_only_one_of_them_is_taken() -> None:
    turn = called("a", text="I look.", reasoning_content="Hm.")
    (_, told) = sent([USER, turn], reasoning="thinking", text_with_reasoning=False).messages
    assert (told["content"], told["thinking"]) == ("", "Hm.\n\nI look.")


def test_a_result_that_follows_no_call_is_told_by_the_user() -> None:
    messages = [result("x", "lone"), USER, called("a"), USER, result("a", "late")]
    shaped = sent(messages, lone_results=False)
    assert names(shaped) == ["user", "user", "a", "user", "user"]
    assert shaped.messages[0]["content"] == "[Result of unknown_tool]\nlone"
    assert shaped.messages[-1]["content"] == "[Result of a]\nlate"
    assert shaped.replaced == {"results": 2}


def test_the_user_speaks_after_the_model_where_sides_must_take_turns() -> None:
    messages = [called("a"), result("a"), USER, USER, called("b"), USER]
    shaped = sent(messages, any_turns=False)
    assert names(shaped) == ["user", "a", "=a", "assistant", "user", "b", "assistant", "user"]
    assert shaped.messages[4]["content"] == "hi\n\nhi"
    assert shaped.replaced == {"turns": 4}


def test_messages_of_the_model_in_a_row_keep_the_reasoning_of_each() -> None:
    turns = [
        {"role": "assistant", "content": text, **({"reasoning_content": thought} if thought else {})}
        for text, thought in (("a", "Hm."), ("b", ""), ("c", "Well."))
    ]
    (_, made) = sent([USER, *turns], any_turns=False).messages
    assert made == {"role": "assistant", "content": "a\n\nb\n\nc", "reasoning_content": "Hm.\n\nWell."}
    (_, plain) = sent([USER, turns[1], turns[1]], any_turns=False).messages
    assert plain == {"role": "assistant", "content": "b\n\nb"}


def test_a_template_that_needs_a_message_of_the_user_gets_one() -> None:
    assert names(sent([called("a")], no_user=False)) == ["user", "a"]
    assert names(sent([{"role": "system", "content": "s"}], no_user=False)) == ["system", "user"]
    assert names(sent([USER], no_user=False)) == ["user"]


@pytest.mark.parametrize("several", [True, False])
def test_without_system_messages_the_user_says_all_that_the_first_ones_say(several: bool) -> None:
    systems = [{"role": "system", "content": text} for text in "abc"]
    shaped = sent([*systems, USER], first_system=False, several_systems=several)
    assert shaped.messages == [{"role": "user", "content": "a\n\nb\n\nc\n\nhi"}]
    talk = [USER, {"role": "assistant", "content": "yes"}, called("look"), result("look")]
    shaped = sent([*systems, *talk], first_system=False, several_systems=several)
    assert shaped.messages[0] == {"role": "user", "content": "a\n\nb\n\nc\n\nhi"}
    assert names(shaped) == ["user", "assistant", "look", "=look"], "the rest is as it was"


CALLS = [{"id": "functions.f:3", "function": {"name": "f", "arguments": {"a": "it's", "n": [1]}}}]


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("lfm2", '<|tool_call_start|>[f(a="it\'s", n=[1])]<|tool_call_end|>'),
        ("granite-3", '<|tool_call|>[{"name": "f", "arguments": {"a": "it\'s", "n": [1]}}]<|/tool_call|>'),
        (
            "kimi-k2",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>"
            '{"a": "it\'s", "n": [1]}<|tool_call_end|><|tool_calls_section_end|>',
        ),
        ("plain", '[{"name": "f", "arguments": {"a": "it\'s", "n": [1]}}]'),
    ],
)
def test_calls_that_a_template_leaves_out_are_written_as_the_model_writes_them(
    family: str, text: str
) -> None:
    known = next((known.family for known in FAMILIES if known.family.name == family), PLAIN)
    assert written(CALLS, known) == text
    shaped = sent([USER, called("a", text="I look."), result("a")], calls=False)
    assert names(shaped) == ["user", "assistant", "=a"]
    assert shaped.messages[1]["content"] == 'I look.\n[{"name": "a", "arguments": "{}"}]'
    assert shaped.replaced == {"calls": 1}


TOOL = {
    "name": "f",
    "parameters": {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": True}},
}


@pytest.mark.parametrize(
    ("function", "traits", "made"),
    [
        ({"name": "f"}, {}, {"name": "f", "parameters": {"type": "object", "properties": {}}}),
        (
            {"name": "f", "parameters": None},
            {"undescribed_tools": False},
            {"name": "f", "description": "", "parameters": {"type": "object", "properties": {}}},
        ),
        (TOOL, {}, TOOL),
        (
            TOOL,
            {"any_schemas": False},
            {
                "name": "f",
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": "string", "nullable": True}, "b": {}},
                },
            },
        ),
    ],
)
def test_tools_have_what_the_template_asks_for(function: Any, traits: Any, made: Any) -> None:
    tool = {"type": "function", "function": function}
    taken = dataclasses.replace(Traits(), **traits)
    assert shape([USER], (tool,), taken, PLAIN, "").tools == [{"type": "function", "function": made}]


MANY = 12_000
MANY_CALLS = [str(number) for number in range(MANY)]
LONG = {
    "results in another order": [USER, called(*MANY_CALLS), *map(result, reversed(MANY_CALLS))],
    "results of no call": [USER, called(*MANY_CALLS), *(result(f"no {name}") for name in MANY_CALLS)],
    "messages of one side": [USER] * (10 * MANY),
    "calls that were cut off": [USER, called(*MANY_CALLS, arguments='{"a":')],
}


@pytest.mark.parametrize("long", LONG)
def test_a_long_conversation_takes_no_more_than_its_length(long: str) -> None:
    """Nothing else is read meanwhile."""
    traits: dict[str, Any] = {
        "parallel_calls": False,
        "lone_results": False,
        "any_turns": False,
        "any_arguments": False,
    }
    messages = copy.deepcopy(LONG[long])
    began = time.process_time()
    shape(messages, (), dataclasses.replace(Traits(), **traits), PLAIN, "")
    assert time.process_time() - began < 2
