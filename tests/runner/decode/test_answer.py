"""Tokens of an answer as text, reasoning and tool calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.runner.decode.answer import Answer
from reconciler.runner.model.adapter import Tokenizer
from reconciler.wire.form import FREE, Form
from reconciler.wire.generation import Delta, Finished
from reconciler.wire.sampling import Ending, Repetition
from tests.runner.ranks import Reply, question

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = '<tool_call>{"name": "look", "arguments": {"at": "Zoë"}}</tool_call>'


def answer_of(tokenizer: Tokenizer, text: str, reason: str = "stop", **fields: Any) -> Reply:
    """The events of an answer that is this text, token by token."""
    answer = Answer(question("a", "", **fields), tokenizer.plain("assistant:"), tokenizer)
    events: list[Any] = []
    for token in tokenizer.plain(text):
        answer.take(token)
        if answer.stopped:
            break
        events += answer.events()
    return Reply([*events, *answer.finish(reason)])


def test_characters_of_several_tokens_come_complete(endless_tokenizer: Tokenizer) -> None:
    reply = answer_of(endless_tokenizer, "naïve 🦙!")
    assert reply.text == "naïve 🦙!"
    assert all("\ufffd" not in str(event) for event in reply.events)
    assert reply.tokens == endless_tokenizer.plain("naïve 🦙!")


def test_special_tokens_have_no_text_and_the_end_token_is_not_even_counted(
    endless_tokenizer: Tokenizer,
) -> None:
    reply = answer_of(endless_tokenizer, "a<|start|>b<|end|>never")
    assert reply.text == "ab"
    assert reply.last == Finished("a", "stop", 10, 3)
    assert len(reply.tokens) == 3


def test_an_answer_that_only_repeats_itself_ends(endless_tokenizer: Tokenizer) -> None:
    wanted = Repetition(pattern_max=8, pattern_min=1, count=3)
    ended = answer_of(endless_tokenizer, "xabababab", repetition=wanted)
    assert (ended.text, ended.last) == ("xababab", Finished("a", "stop", 10, 7, repeated=True))
    off = replace(wanted, pattern_max=0)
    for other in (None, off, replace(wanted, count=5), replace(wanted, pattern_max=1)):
        assert answer_of(endless_tokenizer, "xabababab", "length", repetition=other).text == "xabababab"
    least = answer_of(endless_tokenizer, "xabababab", repetition=wanted, ending=Ending(tokens_min=8))
    assert (least.text, least.last.repeated) == ("xabababa", True)


def test_an_answer_that_goes_on_with_another_group_repeats_what_the_first_one_has_said(
    endless_tokenizer: Tokenizer,
) -> None:
    said = tuple(endless_tokenizer.plain("xabab"))
    wanted = Repetition(pattern_max=8, pattern_min=1, count=3)
    rest = answer_of(endless_tokenizer, "abab", repetition=wanted, resume=said)
    assert (rest.text, rest.last) == ("ab", Finished("a", "stop", 10, 7, repeated=True))


def test_reasoning_is_told_apart_from_text(endless_tokenizer: Tokenizer) -> None:
    reply = answer_of(endless_tokenizer, "<think>hm</think>yes")
    assert (reply.reasoning, reply.text) == ("hm", "yes")


def test_a_tool_call_is_sent_complete(endless_tokenizer: Tokenizer) -> None:
    reply = answer_of(endless_tokenizer, f"ok {CALL}{CALL}", tools=(TOOL,))
    assert reply.text == "ok "
    assert reply.calls == [("look", '{"at": "Zoë"}')] * 2
    assert len(set(reply.call_ids)) == 2
    parts = [part for event in reply.events if isinstance(event, Delta) for part in event.calls]
    assert [part.index for part in parts if part.name] == [0, 1]
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
    reply = answer_of(endless_tokenizer, text, tools=(TOOL,))
    assert (reply.text, reply.calls, reply.last.reason) == (text, [], "stop")


def test_a_tool_call_that_was_cut_off_comes_back_as_text(endless_tokenizer: Tokenizer) -> None:
    reply = answer_of(endless_tokenizer, '<tool_call>{"name": "lo', reason="length", tools=(TOOL,))
    assert (reply.text, reply.last.reason) == ('<tool_call>{"name": "lo', "length")


def test_without_tools_nothing_is_a_tool_call(endless_tokenizer: Tokenizer) -> None:
    assert answer_of(endless_tokenizer, CALL).text == CALL


@pytest.mark.parametrize(
    ("form", "formed"),
    [(FREE, False), (Form(schema="{}"), True), (Form(regex=".*"), True)],
    ids=["free", "schema", "regex"],
)
def test_what_looks_like_a_call_within_a_prescribed_answer_is_a_part_of_it(
    endless_tokenizer: Tokenizer, form: Form, formed: bool
) -> None:
    written = f"ok {CALL}"
    reply = answer_of(endless_tokenizer, written, tools=(TOOL,), form=form)
    assert (reply.text, len(reply.calls)) == ((written, 0) if formed else ("ok ", 1))


def test_a_stop_string_is_held_back_until_it_is_certain(endless_tokenizer: Tokenizer) -> None:
    assert answer_of(endless_tokenizer, "one STOP two", stop=("STOP",)).text == "one "
    assert answer_of(endless_tokenizer, "one STO two", stop=("STOP",)).text == "one STO two"
    assert answer_of(endless_tokenizer, "one STO", stop=("STOP",)).text == "one STO"


@pytest.mark.parametrize(
    ("text", "stops", "found"),
    [
        ("one STOP two", ("HALT", "STOP"), "STOP"),
        ("one STOP two", ("STOP two", "TOP"), "TOP"),
        ("one abcd", ("bc", "abcd"), "bc"),
        ("naïve 🦙!", ("🦙",), "🦙"),
        ("one STO", ("STOP",), None),
        ("one two", (), None),
    ],
)
def test_an_answer_tells_which_stop_string_ended_it(
    endless_tokenizer: Tokenizer, text: str, stops: tuple[str, ...], found: str | None
) -> None:
    assert answer_of(endless_tokenizer, text, stop=stops).last.stop == found


STOPS = {
    "in reasoning": (f"<think>one STOP two</think>three {CALL}", "three ", "one STOP two", 1),
    "in a call": ('a <tool_call>{"name": "look", "arguments": {"at": "STOP"}}</tool_call>', "a ", "", 1),
    "in the content": (f"<think>hm</think>three STOP four {CALL}", "three ", "hm", 0),
    "over the end of reasoning": ("<think>hm ST</think>OP four", "OP four", "hm ST", 0),
    "over a call": (f"three ST{CALL}OP four", "three STOP four", "", 1),
    "begun before a call": (f"three ST{CALL}", "three ST", "", 1),
    "in what looked like a call": ("a <tool_call>STOP</tool_call> b", "a <tool_call>", "", 0),
}


@pytest.mark.parametrize("where", STOPS)
def test_stop_strings_are_looked_for_in_the_content_alone(endless_tokenizer: Tokenizer, where: str) -> None:
    written, text, reasoning, calls = STOPS[where]
    answer = answer_of(endless_tokenizer, written, stop=("STOP",), tools=(TOOL,))
    assert (answer.text, answer.reasoning, len(answer.calls)) == (text, reasoning, calls)
    assert answer.last.stop == ("STOP" if where in ("in the content", "in what looked like a call") else None)


@pytest.mark.parametrize(("end", "stop"), [("<|end|>", ""), ("STOP", "STOP")])
def test_an_answer_that_had_ended_takes_nothing_more_from_the_group_before(
    endless_tokenizer: Tokenizer, end: str, stop: str
) -> None:
    complete = answer_of(endless_tokenizer, f"one {end}", stop=("STOP",))
    said = tuple(endless_tokenizer.plain(f"one {end}two"))
    prompt = endless_tokenizer.plain("assistant:")
    again = Answer(question("a", "", resume=said, stop=("STOP",)), prompt, endless_tokenizer)
    assert again.stopped
    assert again.finish("stop") == [complete.last]
    assert complete.last.stop == (stop or None)


@pytest.mark.parametrize("begun", [1, 2, 3])
def test_a_character_that_breaks_off_is_shown_unless_a_stop_string_has_ended_the_answer(
    endless_tokenizer: Tokenizer, begun: int
) -> None:
    llama = endless_tokenizer.plain("🦙")[:begun]
    for before, stop, text in (("one ", (), "one \ufffd"), ("one STOP", ("STOP",), "one ")):
        answer = Answer(question("a", "", stop=stop), [], endless_tokenizer)
        for token in [*endless_tokenizer.plain(before), *llama]:
            answer.take(token)
        assert Reply(answer.finish("length")).text == text


@pytest.mark.parametrize("text", ["naïve 🦙!", f"<think>hm</think>ok {CALL} and {CALL} done", "x <tool_cal"])
def test_an_answer_cut_anywhere_tells_the_rest_and_nothing_twice(
    endless_tokenizer: Tokenizer, text: str
) -> None:
    """Cut between any two tokens, and before the one that ends it."""
    complete = answer_of(endless_tokenizer, f"{text}<|end|>", tools=(TOOL,))
    *tokens, end = endless_tokenizer.plain(f"{text}<|end|>")
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
        again.take(end)
        both = Reply(events + again.finish("stop"))
        assert (both.text, both.reasoning, both.tokens) == (
            complete.text,
            complete.reasoning,
            complete.tokens,
        )
        assert (both.calls, both.call_ids, both.last) == (complete.calls, complete.call_ids, complete.last)


def test_arguments_stream_as_they_are_written_but_for_the_brace_that_completes_them(
    endless_tokenizer: Tokenizer,
) -> None:
    begun = answer_of(
        endless_tokenizer, '<tool_call>{"name": "look", "arguments": {"at": "Zo', "cancelled", tools=(TOOL,)
    )
    assert begun.calls == [("look", '{"at": "Zo')]
    written = answer_of(endless_tokenizer, CALL.removesuffix("}</tool_call>"), "cancelled", tools=(TOOL,))
    assert written.calls == [("look", '{"at": "Zoë"')]


def test_a_call_that_breaks_off_is_withdrawn_and_its_text_is_content(endless_tokenizer: Tokenizer) -> None:
    text = '<tool_call>{"name": "look", "arguments": {"at": "x"}'
    cut = answer_of(endless_tokenizer, text, reason="length", tools=(TOOL,))
    assert (cut.calls, cut.text, cut.last.reason) == ([], text, "length")
    assert any(part.withdrawn for event in cut.events if isinstance(event, Delta) for part in event.calls)


@pytest.mark.parametrize(("end", "reason"), [("<|end|>", "stop"), ("", "length")])
@pytest.mark.parametrize("text", ["one <tool_ca", "<think>hm</thi", "one ST", "na\u00efve"])
def test_text_that_the_end_sets_free_is_not_sent_again_when_only_the_last_event_was_lost(
    endless_tokenizer: Tokenizer, text: str, end: str, reason: str
) -> None:
    fields: Any = {"tools": (TOOL,), "stop": ("STOP",)}
    complete = answer_of(endless_tokenizer, text + end, reason, **fields)
    assert text.endswith(complete.text)
    prompt = endless_tokenizer.plain("assistant:")
    again = Answer(question("a", "", resume=tuple(complete.tokens), **fields), prompt, endless_tokenizer)
    if again.stopped or reason == "length":
        assert again.finish(reason) == [complete.last]
    else:
        again.take(endless_tokenizer.plain(end)[0])
        assert again.finish(reason) == [complete.last]


def test_a_cancelled_answer_tells_nothing_more(endless_tokenizer: Tokenizer) -> None:
    """Whoever did not ask for the end continues it elsewhere, where the rest may turn out to be markup."""
    assert answer_of(endless_tokenizer, "one <tool_ca", "cancelled", tools=(TOOL,)).text == "one "


def test_only_what_may_begin_a_stop_string_is_held_back(endless_tokenizer: Tokenizer) -> None:
    answer = Answer(question("a", "", stop=("ab", "aac")), [], endless_tokenizer)
    text = ""
    for token in endless_tokenizer.plain("a" * 50):
        answer.take(token)
        text += Reply(answer.events()).text
    assert text == "a" * 48
    answer.take(endless_tokenizer.plain("b")[0])
    assert answer.stopped
    assert text + Reply(answer.finish("stop")).text == "a" * 49


def test_bytes_that_are_no_text_are_not_held_back_for_long(endless_tokenizer: Tokenizer) -> None:
    (first, *_) = endless_tokenizer.plain("\u00ef")
    answer = Answer(question("a", ""), [], endless_tokenizer)
    for _ in range(30):
        answer.take(first)
    assert len(Reply(answer.events()).text) >= 22
    for token in endless_tokenizer.plain(" and \U0001f999"):
        answer.take(token)
    assert Reply(answer.finish("stop")).text.endswith(" and \U0001f999")


def test_a_hole_in_the_vocabulary_has_no_text(endless_tokenizer: Tokenizer) -> None:
    detokenizer = endless_tokenizer.detokenizer()
    assert [detokenizer.text(token) for token in (100_000, *endless_tokenizer.plain("a"))] == ["", "a"]


def test_arguments_that_are_nested_too_deeply_come_back_as_text(endless_tokenizer: Tokenizer) -> None:
    text = f'<tool_call>{{"name": "look", "arguments": {{"at": {"[" * 700}1{"]" * 700}}}}}</tool_call>'
    assert answer_of(endless_tokenizer, text, tools=(TOOL,)).text == text


def test_an_answer_ends_after_as_many_tool_calls_as_were_asked_for(endless_tokenizer: Tokenizer) -> None:
    reply = answer_of(endless_tokenizer, f"ok {CALL}{CALL} and more", tools=(TOOL,), tool_calls_max=1)
    assert reply.calls == [("look", '{"at": "Zoë"}')]
    assert reply.text == "ok "
    assert reply.last.reason == "tool_calls"


@pytest.mark.parametrize("prompt", [{"prompt": "x"}, {"prompt_tokens": (5,)}])
def test_what_follows_a_prompt_that_is_no_conversation_is_sent_as_it_is(
    endless_tokenizer: Tokenizer, prompt: dict[str, Any]
) -> None:
    reply = answer_of(endless_tokenizer, f"<think>hm</think>{CALL}", messages=(), **prompt)
    assert (reply.text, reply.reasoning, reply.calls) == (f"<think>hm</think>{CALL}", "", [])
