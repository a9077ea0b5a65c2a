"""Log-probabilities as OpenAI's SDK reads them, whole and streamed."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.wire.generation import Likely, TokenLogprobs
from tests.gateway.conftest import HELLO, Start
from tests.gateway.rank_double import Turn

HI = Likely(5, "Hi", -0.25, (72, 105))
HO = Likely(6, "Ho", -1.5, (72, 111))
LLAMA = "🦙".encode()
FIRST = Likely(7, "\ufffd", -0.5, tuple(LLAMA[:2]))
SECOND = Likely(8, "\ufffd", -0.125, tuple(LLAMA[2:]))
END = Likely(0, "<|end|>", -9999.0)
REPORTED = (
    TokenLogprobs(HI, (HI, HO)),
    TokenLogprobs(FIRST, (END, HI)),
    TokenLogprobs(SECOND, (SECOND, END)),
    TokenLogprobs(HO, (HO, HI)),
)


async def speak(turn: Turn) -> None:
    turn.accept()
    assert turn.generate.logprobs == 2
    turn.say("Hi", 5, logprobs=REPORTED[:1])
    turn.say("", 7, logprobs=REPORTED[1:2])
    turn.say("🦙", 8, reasoning="hm", logprobs=REPORTED[2:3])
    turn.say("Ho", 6, logprobs=REPORTED[3:])
    turn.finish()


def entries(content: Any) -> list[tuple[Any, ...]]:
    return [
        (one.token, one.logprob, one.bytes, [(likely.token, likely.logprob, likely.bytes) for likely in one.top_logprobs])
        for one in content
    ]  # fmt: skip


CONTENT = [
    ("Hi", -0.25, [72, 105], [("Hi", -0.25, [72, 105]), ("Ho", -1.5, [72, 111])]),
    (r"\xf0\x9f", -0.5, [240, 159], [("<|end|>", -9999.0, None), ("Hi", -0.25, [72, 105])]),
    (r"\xa6\x99", -0.125, [166, 153], [(r"\xa6\x99", -0.125, [166, 153]), ("<|end|>", -9999.0, None)]),
    ("Ho", -1.5, [72, 111], [("Ho", -1.5, [72, 111]), ("Hi", -0.25, [72, 105])]),
]


async def test_a_chat_has_those_of_each_token_and_the_likeliest_ones(start: Start) -> None:
    cluster = await start(speak)
    reply = await cluster.client.chat.completions.create(
        model="llama", messages=HELLO, logprobs=True, top_logprobs=2
    )
    logprobs = reply.choices[0].logprobs
    assert logprobs is not None
    assert entries(logprobs.content) == CONTENT
    joined = b"".join(bytes(one.bytes or ()) for one in logprobs.content or ())
    assert joined.decode() == reply.choices[0].message.content


async def test_a_streamed_chat_has_each_once(start: Start) -> None:
    cluster = await start(speak)
    stream = await cluster.client.chat.completions.create(
        model="llama", messages=HELLO, logprobs=True, top_logprobs=2, stream=True
    )
    chunks = [chunk.choices[0] async for chunk in stream]
    content = [one for chunk in chunks if chunk.logprobs for one in chunk.logprobs.content or ()]
    assert entries(content) == CONTENT
    assert "".join(chunk.delta.content or "" for chunk in chunks) == "Hi🦙Ho"


COMPLETED = {
    "tokens": ["Hi", r"bytes:\xf0\x9f", r"bytes:\xa6\x99", "Ho"],
    "token_logprobs": [-0.25, -0.5, -0.125, -1.5],
    "top_logprobs": [
        {"Hi": -0.25, "Ho": -1.5},
        {"<|end|>": -9999.0, "Hi": -0.25, r"bytes:\xf0\x9f": -0.5},
        {r"bytes:\xa6\x99": -0.125, "<|end|>": -9999.0},
        {"Ho": -1.5, "Hi": -0.25},
    ],
    "text_offset": [0, 2, 2, 3],
}


async def test_a_completion_has_them_in_lists_with_the_places_of_the_tokens(start: Start) -> None:
    cluster = await start(speak)
    reply = await cluster.client.completions.create(model="llama", prompt="Once", logprobs=2, n=2)
    for choice in reply.choices:
        assert choice.logprobs is not None
        assert choice.logprobs.model_dump() == COMPLETED


async def test_a_streamed_completion_has_the_same_part_by_part(start: Start) -> None:
    cluster = await start(speak)
    stream = await cluster.client.completions.create(model="llama", prompt="Once", logprobs=2, stream=True)
    joined: dict[str, list[Any]] = {name: [] for name in COMPLETED}
    async for chunk in stream:
        for name, values in (
            chunk.choices[0].logprobs.model_dump() if chunk.choices[0].logprobs else {}
        ).items():
            joined[name] += values
    assert joined == COMPLETED


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_has_none_that_nobody_asked_for(start: Start, stream: bool) -> None:
    async def plain(turn: Turn) -> None:
        assert turn.generate.logprobs is None
        turn.accept()
        turn.say("Hi", 5)
        turn.finish()

    cluster = await start(plain)
    for path, asked in (("/v1/chat/completions", {"messages": HELLO}), ("/v1/completions", {"prompt": "a"})):
        body = {"model": "llama", "stream": stream, "logprobs": None, **asked}
        async with cluster.http.post(cluster.url(path), json=body) as answer:
            text = await answer.text()
        assert '"logprobs":null' in text
        assert '"logprobs":{' not in text
