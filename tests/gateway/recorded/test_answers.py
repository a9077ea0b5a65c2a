"""What clients get for answers of groups, in each dialect, streamed and whole: text, reasoning, calls, scores, and ends.

The first file has each event of short answers, without the fields that all events of a dialect have. The others have a
digest for each dialect, in the order of the first line; ``!`` stands for an assertion that did not hold, which no group
brings about.

``UPDATE_GOLDEN=1 .venv/bin/python -m pytest -n 0 tests/gateway/recorded`` writes the files again. Read each line of the
difference: a line that nobody meant to change is a fault.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
import pytest

from reconciler.gateway import errors
from reconciler.gateway.dialects.anthropic import messages
from reconciler.gateway.dialects.dialect import Parsed, is_stream
from reconciler.gateway.dialects.openai import chat, completions, embeddings
from reconciler.gateway.dialects.responses import create
from reconciler.gateway.events import Part, Piece
from reconciler.wire.generation import Accepted, Delta, Finished, Scored
from reconciler.wire.question import Vector
from tests.recorded import compare, digest

from .answers import BEGINNING, Case, case, delta, several, single, token
from .telling import FOLDER, Models, counted, folded, outcome, short, told

HELLO = [{"role": "user", "content": "hello"}]
BODIES: Mapping[str, tuple[Callable[..., Parsed], Mapping[str, Any]]] = {
    "chat": (chat.parse, {"messages": HELLO}),
    "completions": (completions.parse, {"prompt": "hello"}),
    "responses": (create.parse, {"input": "hello"}),
    "messages": (messages.parse, {"messages": HELLO, "max_tokens": 20}),
}
WAYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "chat": ("chat", {}),
    "chat-stream": ("chat", {"stream": True, "stream_options": {"include_usage": True}}),
    "chat-all": ("chat", {"return_token_ids": True, "return_groups": True, "logprobs": True, "top_logprobs": 2}),
    "chat-all-stream": ("chat", {"stream": True, "return_token_ids": True, "return_groups": True, "logprobs": True}),
    "completions": ("completions", {"logprobs": 2}),
    "completions-stream": ("completions", {"stream": True}),
    "completions-echo": ("completions", {"echo": True, "logprobs": 1}),
    "responses": ("responses", {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]}),
    "responses-stream": ("responses", {"stream": True}),
    "responses-all-stream": (
        "responses",
        {
            "stream": True, "reasoning": {"summary": "auto"}, "top_logprobs": 2,
            "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        },
    ),
    "responses-sealed": ("responses", {"include": ["reasoning.encrypted_content"], "metadata": {"a": "b"}}),
    "messages": ("messages", {"context_management": {}}),
    "messages-stream": ("messages", {"stream": True, "context_management": {}}),
    "messages-omitted": ("messages", {"thinking": {"type": "adaptive", "display": "omitted"}}),
    "messages-omitted-stream": ("messages", {"stream": True, "thinking": {"type": "adaptive", "display": "omitted"}}),
}  # fmt: skip
SHOWN = (
    "chat-all-stream",
    "chat-all",
    "completions-stream",
    "responses-all-stream",
    "messages",
    "messages-stream",
)
_HEADS = re.compile(
    r'"id":"(chatcmpl|cmpl)-0","object":"[a-z._]+","created":1700000000,"model":"m",?|"sequence_number":\d+,|"type":"content_block_delta",'
)
_REPEATED = re.compile(
    r'"response":\{.*?"status":|data: (?=\{)|^event: (?:response\.)?|(?<=\{)"type":"[a-z_.]+",?(?="(?:index|item_id|output_index|message|response|delta|type|sequence)|\})'
)


def asked(way: str, **more: Any) -> Parsed:
    dialect, options = WAYS[way]
    parse, body = BODIES[dialect]
    return parse(orjson.dumps({"model": "m", **body, **options, **more}), counted(), Models())


def written(parsed: Parsed, pieces: Sequence[Piece], at_once: bool = False) -> bytes:
    """A whole answer, or a stream with a sign of life after each event."""
    answer = parsed.answer
    if not is_stream(answer):
        for piece in pieces:
            answer.add([piece])
        return answer.body()
    if at_once:
        return answer.encode(pieces)
    parts = []
    for piece in pieces:
        parts.append(answer.encode([piece]))
        if not isinstance(piece[1], Finished):
            parts.append(answer.keep_alive())
    return b"".join(parts)


def of(case: Case, way: str) -> Sequence[Part]:
    if way == "completions-echo":
        scores = Scored("", 0, (token("p"), token("q", "r"), token("s")))
        return [case.answers[0], scores, *case.answers[1:]]
    return case.all if way.startswith("chat-all") else case.answers


def digested(case: Case, way: str) -> str:
    pieces = [(0, part) for part in of(case, way)]
    try:
        text = written(asked(way), pieces)
        at_once = written(asked(way), pieces, at_once=True)
    except (AssertionError, KeyError):
        return "!"
    return digest(text if text == at_once else (text, at_once), 4)


def lines_of(text: bytes, length: int = 70) -> list[str]:
    """The events of an answer."""
    events = [event for event in text.decode("utf-8", "replace").split("\n\n") if event]
    return [short(_REPEATED.sub("", _HEADS.sub("", event)), length) for event in events]


def test_short_answers_are_written_event_by_event_as_before() -> None:
    shown = [
        case(("reasoning", "blank-text", "call", "withdrawn"), "calls"),
        case(("both", "scores", "two-at-once", "working", "reading"), "length"),
        case((), "repeated"),
    ]
    lines = []
    for each in shown:
        for way in SHOWN:
            lines.append(f"=== {each.name}: {way}")
            lines += lines_of(written(asked(way), [(0, part) for part in of(each, way)], at_once=True))
    compare(FOLDER / "answers_shown.txt", lines)


def test_answers_are_written_as_before() -> None:
    lines = [" ".join(WAYS)]
    lines += [f"{each.name}: {' '.join(digested(each, way) for way in WAYS)}" for each in single()]
    more = [f"{each.name}: {' '.join(digested(each, way) for way in WAYS)}" for each in several(60)]
    compare(FOLDER / "answers.txt", [*lines, *folded(more, 20, 2)])


def choices(number: int, ends: Sequence[str]) -> list[Piece]:
    """Answers of several choices that take turns and end in the order given."""
    order = list(range(number))
    pieces: list[Piece] = [(at, dataclasses.replace(BEGINNING, prompt_tokens=(at, 2))) for at in order]
    for text in ("one", "two"):
        pieces += [(at, delta(f"{text}{at} ")) for at in reversed(order)]
    for end, at in zip(ends, reversed(order), strict=True):
        pieces.append((at, delta(f"end{at}", tokens=2)))
        pieces.append((at, Finished("", end, 2 + at // 2, 5 + at, at // 2)))
    return pieces


def test_several_answers_are_written_as_before() -> None:
    lines = []
    for name, way, more in (
        ("chat", "chat", {"n": 3}),
        ("chat stream", "chat-stream", {"n": 3}),
        ("chat stream without usage", "chat-stream", {"n": 3, "stream_options": None}),
        ("completions", "completions", {"n": 3, "logprobs": None}),
        ("completions stream", "completions-stream", {"n": 3, "stream_options": {"include_usage": True}}),
        ("completions of two prompts", "completions", {"n": 2, "prompt": ["a", "b"], "logprobs": None}),
        ("completions of two prompts in a stream", "completions-stream", {"n": 2, "prompt": ["a", "b"], "stream_options": {"include_usage": True}}),
    ):  # fmt: skip
        number = 4 if "prompts" in name else 3
        pieces = choices(number, ["stop", "length", "stop", "length"][:number])
        lines.append(f"=== {name}")
        lines += folded(lines_of(written(asked(way, **more), pieces), 60), 5, 4)
    compare(FOLDER / "answers_of_several.txt", lines)


FAILURES = {
    "internal": errors.internal("lost"),
    "too long": errors.prompt_too_long(10, 5),
    "invalid": errors.invalid("wrong", "messages"),
    "quarantined": errors.prompt_quarantined("m", 2, "r", 60),
    "overloaded": errors.overloaded("full"),
    "limited": errors.ApiError(429, "rate_limit_error", None, "slow"),
}


def test_streams_break_off_as_before() -> None:
    lines = []
    for way in ("chat-stream", "completions-stream", "responses-stream", "messages-stream"):
        for name, error in FAILURES.items():
            lines.append(f"=== {way}: {name}")
            for parts in ((), (BEGINNING,), (BEGINNING, delta("so"), delta("", "hm"))):
                answer = asked(way).answer
                assert is_stream(answer)
                said = answer.encode([(0, part) for part in parts]) if parts else b""
                alive = answer.keep_alive() if len(parts) == 1 else b""
                end = answer.error(error)
                lines.append(
                    f"{len(parts)}: {digest(said + alive)} {short(_REPEATED.sub('', _HEADS.sub('', end.decode())), 60)}"
                )
    compare(FOLDER / "answers_broken.txt", lines)


def test_vectors_are_written_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for given in ({}, {"encoding_format": "base64"}, {"model": "n"}):
        body = orjson.dumps({"model": "m", "input": ["a", "b"], **given})
        parsed = embeddings.parse(body, counted(), Models())
        vectors = [
            Vector(1, "AACAPwAAAEA="),
            Vector(0, "AAAAvwAAAAA="),
            Vector(1, "AACAPwAAQEA="),
            Vector(2, ""),
        ]
        pieces: list[Piece] = [(0, Accepted("", ()))]
        pieces += [(0, Delta("", (), vectors=(vector,))) for vector in vectors]
        lines.append(f"{told(given)} {written(parsed, [*pieces, (0, Finished('', 'stop', 9, 0))]).decode()}")
    monkeypatch.setattr(embeddings, "NUMBERS_MAX", 4)
    answer = embeddings.EmbeddingsReply("m", in_base64=False)
    for place in (0, 0, 1, 2, 3, 4, 5):
        piece = (0, Delta("", (), vectors=(Vector(place, "AACAPw=="),)))
        lines.append(f"at most 4, at {place}: {outcome(partial(answer.add, [piece]))}")
    compare(FOLDER / "answers_of_vectors.txt", lines)
