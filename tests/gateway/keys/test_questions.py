"""What counts of questions: nothing of those that only read a prompt, the texts of those for vectors."""

from __future__ import annotations

from typing import Any

from reconciler.gateway.keys.estimate import estimate
from reconciler.wire.generation import Accepted, Delta, Finished, Generate
from reconciler.wire.question import Question, Texts, Vector
from tests.gateway.conftest import Start
from tests.gateway.rank_double import Turn

from .test_limits import ask, key, started

LIMIT, TOKENS = 100, 60


async def answer(turn: Turn) -> None:
    """Count a prompt of many tokens, or make a vector of a text of as many."""
    request = turn.generate.request
    turn.send(Accepted(request, ()))
    if turn.generate.texts is not None:
        turn.send(Delta(request, (), vectors=(Vector(0, "AAAAAA=="),)))
    turn.send(Finished(request, "stop", TOKENS, 0))


async def test_a_key_may_count_as_it_likes_and_is_charged_for_vectors(start: Start) -> None:
    cluster = await started(start, answer, key(tokens_per_minute=LIMIT))
    for _ in range(4):
        status, headers, body = await ask(cluster, path="/tokenize")
        assert (status, body["count"]) == (200, TOKENS)
        assert headers["x-ratelimit-remaining-tokens"] == str(LIMIT)
    status, _, body = await ask(cluster, path="/v1/embeddings", messages=None, input="a")
    assert (status, body["usage"]["total_tokens"], body["data"][0]["embedding"]) == (200, TOKENS, [0.0])
    _, headers, _ = await ask(cluster, path="/tokenize")
    assert int(headers["x-ratelimit-remaining-tokens"]) <= LIMIT - TOKENS + 1
    status, _, body = await ask(cluster, path="/v1/embeddings", messages=None, input="word " * 100)
    assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")


def test_what_is_reserved_is_of_the_texts() -> None:
    def reserved(**fields: Any) -> int:
        asked = Generate("", (), tokens_max=0, **fields)
        return estimate([asked], 1).usual

    assert reserved(prompt="word " * 100, question=Question()) == 0
    assert reserved(question=Question(texts=Texts(texts=("word " * 60, "word")))) == 101
    assert reserved(question=Question(texts=Texts(tokens=((5,) * 70, (5,))))) == 71
