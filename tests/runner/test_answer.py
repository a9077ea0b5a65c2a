"""Tokens of an answer as text, reasoning and tool calls."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.runner.adapter import Tokenizer
from reconciler.runner.answer import Answer
from reconciler.wire.generation import Finished, ToolCall

from .ranks import Reply, question

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = '<tool_call>{"name": "look", "arguments": {"at": "Zoë"}}</tool_call>'


def say(tokenizer: Tokenizer, text: str, reason: str = "stop", **fields: Any) -> Reply:
    """The events of an answer that is this text, token by token."""
    answer = Answer(question("a", "", **fields), tokenizer.plain("assistant:"), tokenizer)
    events: list[Any] = []
    for token in tokenizer.plain(text):
        answer.take(token)
        if answer.stopped:
            break
        events += answer.events()
    return Reply([*events, *answer.finish(reason)])


def test_characters_of_several_tokens_come_whole(endless_tokenizer: Tokenizer) -> None:
    reply = say(endless_tokenizer, "naïve 🦙!")
    assert reply.text == "naïve 🦙!"
    assert all("\ufffd" not in str(event) for event in reply.events)
    assert reply.tokens == endless_tokenizer.plain("naïve 🦙!")


def test_special_tokens_have_no_text_and_the_end_token_is_not_even_counted(
    endless_tokenizer: Tokenizer,
) -> None:
    reply = say(endless_tokenizer, "a<|start|>b<|end|>never")
    assert reply.text == "ab"
    assert reply.last == Finished("a", "stop", 10, 3)
    assert len(reply.tokens) == 3


def test_reasoning_is_told_apart_from_text(endless_tokenizer: Tokenizer) -> None:
    reply = say(endless_tokenizer, "<think>hm</think>yes")
    assert (reply.reasoning, reply.text) == ("hm", "yes")


def test_a_tool_call_is_told_whole(endless_tokenizer: Tokenizer) -> None:
    reply = say(endless_tokenizer, f"ok {CALL}{CALL}", tools=(TOOL,))
    assert reply.text == "ok "
    assert reply.calls == [ToolCall("a", n, "look", '{"at": "Zoë"}') for n in (0, 1)]
    assert reply.last.reason == "tool_calls"


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>not json</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        "<tool_call>[1]</tool_call>!",
    ],
)
def test_markup_that_is_no_tool_call_comes_back_as_text(endless_tokenizer: Tokenizer, text: str) -> None:
    reply = say(endless_tokenizer, text, tools=(TOOL,))
    assert (reply.text, reply.calls, reply.last.reason) == (text, [], "stop")


def test_a_tool_call_that_was_cut_off_comes_back_as_text(endless_tokenizer: Tokenizer) -> None:
    reply = say(endless_tokenizer, '<tool_call>{"name": "lo', reason="length", tools=(TOOL,))
    assert (reply.text, reply.last.reason) == ('<tool_call>{"name": "lo', "length")


def test_without_tools_nothing_is_a_tool_call(endless_tokenizer: Tokenizer) -> None:
    assert say(endless_tokenizer, CALL).text == CALL


def test_a_stop_string_is_held_back_until_it_is_certain(endless_tokenizer: Tokenizer) -> None:
    assert say(endless_tokenizer, "one STOP two", stop=("STOP",)).text == "one "
    assert say(endless_tokenizer, "one STO two", stop=("STOP",)).text == "one STO two"
    assert say(endless_tokenizer, "one STO", stop=("STOP",)).text == "one STO"


@pytest.mark.parametrize("text", ["naïve 🦙!", f"<think>hm</think>ok {CALL} and {CALL} done", "x <tool_cal"])
def test_an_answer_cut_anywhere_tells_the_rest_and_nothing_twice(
    endless_tokenizer: Tokenizer, text: str
) -> None:
    whole = say(endless_tokenizer, text, tools=(TOOL,))
    tokens = endless_tokenizer.plain(text)
    for cut in range(len(tokens) + 1):
        first = Answer(
            question("a", "", tools=(TOOL,)), endless_tokenizer.plain("assistant:"), endless_tokenizer
        )
        events: list[Any] = []
        for token in tokens[:cut]:
            first.take(token)
            events += first.events()
        again = Answer(
            question("a", "", tools=(TOOL,), resume=tuple(tokens[:cut])),
            endless_tokenizer.plain("assistant:"),
            endless_tokenizer,
        )
        for token in tokens[cut:]:
            again.take(token)
            events += again.events()
        both = Reply(events + again.finish("stop"))
        assert (both.text, both.reasoning, both.tokens) == (whole.text, whole.reasoning, whole.tokens)
        assert (both.calls, both.last) == (whole.calls, whole.last)
