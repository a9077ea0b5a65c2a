"""One list of a rank's events says the same in every dialect: whole and streamed, however it is cut into writes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.gateway.dialects.dialect import Parsed, Sources, is_stream
from reconciler.gateway.dialects.openai import chat
from reconciler.gateway.dialects.responses import create
from reconciler.gateway.errors import ApiError, internal, invalid, prompt_quarantined, prompt_too_long
from reconciler.gateway.events import Answer, Piece
from reconciler.wire.generation import Accepted, CallPart, Delta, Finished, Likely, TokenLogprobs
from tests.gateway.conftest import HELLO
from tests.gateway.dialects.responses.events import (
    calls_of,
    check,
    deltas_of,
    events_of,
    reasoning_of,
    text_of,
)
from tests.gateway.recorded.telling import Models

TEXTS = st.text(st.sampled_from('ab \n"\\é🦙'), min_size=1, max_size=6)
FEW = st.lists(TEXTS, min_size=1, max_size=3)


@dataclasses.dataclass(frozen=True)
class Part:
    """A stretch of an answer of one kind."""

    kind: str
    """``reasoning``, ``text``, ``call``, or ``broken`` for a call that is withdrawn."""
    pieces: Sequence[str]


PARTS = st.lists(
    st.builds(Part, st.sampled_from(["reasoning", "text", "text", "call", "broken"]), FEW), max_size=6
)


def written(parts: Sequence[Part], length: bool) -> list[Answer]:
    """The parts as a rank tells of them, one token for each piece."""
    tokens = itertools.count()
    answers: list[Answer] = [Accepted("r", (1, 2, 3))]
    calls = 0
    for part in parts:
        if part.kind == "reasoning":
            answers += [Delta("r", (next(tokens),), reasoning=piece) for piece in part.pieces]
        elif part.kind == "text":
            answers += [Delta("r", (next(tokens),), piece) for piece in part.pieces]
        else:
            begun = CallPart(calls, f"tool{calls}", f"id{calls}", '{"a":')
            more = [CallPart(calls, arguments=piece) for piece in part.pieces]
            answers += [Delta("r", (next(tokens),), calls=(one,)) for one in (begun, *more)]
            if part.kind == "broken":
                withdrawn = (CallPart(calls, withdrawn=True),)
                answers.append(Delta("r", (next(tokens),), "<" + "".join(part.pieces), calls=withdrawn))
            calls += 1
    called = any(part.kind == "call" for part in parts)
    reason = "length" if length else "tool_calls" if called else "stop"
    return [*answers, Finished("r", reason, 3, next(tokens), 2)]


def parsed(path: str, stream: bool) -> Parsed:
    """A request of either dialect, with ids that count."""
    numbers = itertools.count()
    sources = Sources(lambda: 1_700_000_000.0, lambda: f"{next(numbers):024x}", lambda: 42)
    if path == "chat":
        body = {"model": "m", "messages": HELLO, "stream": stream, "stream_options": {"include_usage": True}}
        return chat.parse(orjson.dumps(body), sources, Models())
    return create.parse(orjson.dumps({"model": "m", "input": "hello", "stream": stream}), sources, Models())


def whole(path: str, answers: Sequence[Answer]) -> dict[str, Any]:
    reply = parsed(path, stream=False).answer
    assert not is_stream(reply)
    reply.add([(0, answer) for answer in answers])
    body = orjson.loads(reply.body())
    assert isinstance(body, dict)
    return body


def streamed(path: str, answers: Sequence[Answer], cuts: Sequence[int]) -> bytes:
    """The answer in writes that end at ``cuts``."""
    stream = parsed(path, stream=True).answer
    assert is_stream(stream)
    pieces: list[Piece] = [(0, answer) for answer in answers]
    ends = [*sorted(cuts), len(pieces)]
    return b"".join(stream.encode(pieces[a:b]) for a, b in zip([0, *ends], ends, strict=False))


def shown(parts: Sequence[Part], by_calls: bool) -> str:
    """The text of an answer. White space alone around calls is nobody's to read where they are items of their own."""
    stretches = [""]
    for part in parts:
        if part.kind == "call":
            stretches.append("")
        elif part.kind != "reasoning":
            stretches[-1] += ("<" if part.kind == "broken" else "") + "".join(part.pieces)
    if by_calls and len(stretches) > 1:
        return "".join(stretch for stretch in stretches if stretch.strip())
    return "".join(stretches)


CALL, BLANK = Part("call", ["1}"]), Part("text", ["\n", " "])


@example(parts=[CALL, BLANK], length=False, cuts=[])
@example(parts=[BLANK, CALL, BLANK, CALL], length=True, cuts=[2])
@example(parts=[BLANK, Part("broken", ["1}"])], length=False, cuts=[3])
@example(parts=[CALL, BLANK, Part("broken", ["1}"]), BLANK], length=False, cuts=[])
@example(parts=[BLANK], length=False, cuts=[1])
@example(parts=[BLANK], length=True, cuts=[])
@example(parts=[Part("reasoning", ["a"]), BLANK, Part("reasoning", ["b"])], length=False, cuts=[])
@example(parts=[], length=True, cuts=[])
@given(parts=PARTS, length=st.booleans(), cuts=st.lists(st.integers(0, 12), max_size=6))
def test_chat_and_responses_say_the_same(parts: list[Part], length: bool, cuts: list[int]) -> None:
    answers = written(parts, length)
    one, other = whole("chat", answers), whole("responses", answers)
    message, end = one["choices"][0]["message"], one["choices"][0]["finish_reason"]
    check(other)

    text = shown(parts, by_calls=False)
    assert (message["content"] or "") == (text if text.strip() or "tool_calls" not in message else "")
    assert text_of(other) == shown(parts, by_calls=True)
    assert reasoning_of(other) == message.get("reasoning", "")
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", ())
    ]
    assert calls_of(other) == calls
    assert (other["status"], other["incomplete_details"]) == (
        ("incomplete", {"reason": "max_output_tokens"}) if end == "length" else ("completed", None)
    )
    usage, tokens = other["usage"], one["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (
        tokens["prompt_tokens"],
        tokens["completion_tokens"],
    )
    assert usage["input_tokens_details"]["cached_tokens"] == tokens["prompt_tokens_details"]["cached_tokens"]

    events = events_of(streamed("responses", answers, cuts))
    assert events[-1]["response"] == other
    assert deltas_of(events, "output_text") == text_of(other)
    assert deltas_of(events, "reasoning_text") == reasoning_of(other)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    withdrawn = [part for part in parts if part.kind == "broken"]
    assert [item for item in done if item in other["output"]] == other["output"]
    assert len(done) == len(other["output"]) + len(withdrawn)
    assert chat_text(streamed("chat", answers, cuts)) == shown(parts, by_calls=False)


def chat_text(stream: bytes) -> str:
    chunks = [orjson.loads(line[6:]) for line in stream.split(b"\n\n") if line not in (b"", b"data: [DONE]")]
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])


@given(parts=PARTS, at=st.integers(0, 12))
def test_an_answer_that_breaks_off_anywhere_ends_with_what_there_was(parts: list[Part], at: int) -> None:
    stream = parsed("responses", stream=True).answer
    assert is_stream(stream)
    begun = [(0, answer) for answer in written(parts, length=False)[:-1][:at]]
    events = events_of(stream.encode(begun) + stream.error(internal("every group failed")))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {"code": "server_error", "message": "every group failed"}
    assert text_of(last["response"]) == deltas_of(events, "output_text")
    assert reasoning_of(last["response"]) == deltas_of(events, "reasoning_text")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (internal("x"), "server_error"),
        (invalid("x", "messages"), "invalid_prompt"),
        (prompt_quarantined("m", 2, "r", 60), "invalid_prompt"),
        (prompt_too_long(5000, 4096), "context_length_exceeded"),
        (ApiError(429, "rate_limit_error", "rate_limit_exceeded", "x"), "rate_limit_exceeded"),
        (ApiError(401, "authentication_error", "revoked_api_key", "x"), "server_error"),
    ],
)
def test_a_response_that_fails_has_a_code_that_its_clients_know(error: ApiError, code: str) -> None:
    """OpenAI sends ``context_length_exceeded`` too, though its published schema has no such code."""
    stream = parsed("responses", stream=True).answer
    assert is_stream(stream)
    last = orjson.loads(stream.error(error).rpartition(b"data: ")[2])
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", code)


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (Part("text", ["a"]), "response.output_text.delta"),
        (Part("reasoning", ["a"]), "response.reasoning_text.delta"),
        (Part("call", ["1}"]), "response.function_call_arguments.delta"),
        (None, "response.in_progress"),
    ],
)
def test_a_sign_of_life_adds_nothing_to_what_is_being_written(part: Part | None, kind: str) -> None:
    answers = written([part] if part else [], length=False)
    stream = parsed("responses", stream=True).answer
    assert is_stream(stream)
    begun = stream.encode([(0, answer) for answer in answers[:-1]])
    alive = stream.keep_alive()
    events = events_of(begun + alive + stream.encode([(0, answers[-1])]))
    sign = orjson.loads(alive.rpartition(b"data: ")[2])
    assert sign["type"] == kind
    assert sign.get("delta", "") == ""
    assert events[-1]["response"]["output"] == whole("responses", answers)["output"]


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("likely", [False, True])
@pytest.mark.parametrize("text", ["", "a"])
@pytest.mark.parametrize("reasoning", ["", "hm"])
def test_a_token_without_text_is_told_only_where_tokens_are_asked_for(
    with_ids: bool, likely: bool, text: str, reasoning: str
) -> None:
    body = {"model": "m", "messages": HELLO, "stream": True, "logprobs": likely, "return_token_ids": with_ids}
    sources = Sources(lambda: 1_700_000_000.0, lambda: "0" * 24, lambda: 42)
    stream = chat.parse(orjson.dumps(body), sources, Models()).answer
    assert is_stream(stream)
    logprobs = (TokenLogprobs(Likely(7, "a", -0.5), ()),) if likely else ()
    before = stream.encode([(0, Accepted("r", (1, 2)))])
    told = stream.encode([(0, Delta("r", (7,), text, reasoning, logprobs=logprobs))])
    assert before
    chunks = [orjson.loads(line[6:])["choices"][0] for line in told.split(b"\n\n") if line]
    parts = [{"reasoning": reasoning}] * bool(reasoning) + [{"content": text}] * bool(text)
    if not parts and (with_ids or likely):
        parts = [{"content": ""}]
    assert [
        {key: chunk["delta"][key] for key in part} for chunk, part in zip(chunks, parts, strict=True)
    ] == parts
    ids = [chunk.get("token_ids") for chunk in chunks]
    assert ids == ([[7], *[[]] * (len(parts) - 1)] if with_ids and parts else [None] * len(parts))
    described = [chunk.get("logprobs") for chunk in chunks]
    assert [each is not None for each in described] == [likely and not at for at in range(len(parts))]
