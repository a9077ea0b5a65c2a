"""Questions about prompts go the way of every request: they are held, sent, and asked again; but they take no place."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import orjson

from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.generation import Accepted, Delta, Finished
from reconciler.wire.question import Texts, Vector
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import Turn, silent, story

QUICK = Timing(shutdown=0.5, hello=60.0, routes_idle=0.02, retry_same_backend=0.05)
TOKENS = (5, 6, 7)


async def count(cluster: Cluster) -> tuple[int, Any]:
    body = io.BytesIO(orjson.dumps({"model": "llama", "messages": HELLO}))
    async with cluster.http.post(cluster.url("/tokenize"), data=body) as answer:
        return answer.status, orjson.loads(await answer.read())


async def read(turn: Turn) -> None:
    """Answer a question as a rank does, and generate nothing."""
    request = turn.generate.request
    assert (turn.generate.tokens_max, turn.generate.question is None) == (0, False)
    turn.send(Accepted(request, TOKENS), Finished(request, "length", len(TOKENS), 0))


async def older(turn: Turn) -> None:
    """Refuse as a rank of the version before, which ignores the question."""
    turn.fail("invalid_request", "tokens_max is 0, but must be at least 1", "tokens_max")


async def test_a_question_is_held_while_a_group_forms(start: Start) -> None:
    cluster = await start(timing=QUICK)
    async with asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(count(cluster))
        await asyncio.sleep(0.05)
        assert not asked.done()
        cluster.route(await cluster.rank(read))
    status, body = asked.result()
    assert (status, body["tokens"]) == (200, list(TOKENS))


async def test_it_is_asked_again_where_its_group_is_lost(start: Start) -> None:
    async def dies(turn: Turn) -> None:
        turn.accept()
        turn.die()

    cluster = await start(dies, timing=QUICK)
    rank = cluster.ranks[0]

    async def dies_once(turn: Turn) -> None:
        rank.script = read
        await dies(turn)

    rank.script = dies_once
    status, body = await count(cluster)
    assert (status, body["count"], len(rank.asked)) == (200, len(TOKENS), 2)


async def test_vectors_that_were_there_before_a_loss_are_made_once_more_and_told_once(start: Start) -> None:
    first, second = (Vector(place, number) for place, number in enumerate(("AACAPw==", "AAAAQA==")))

    async def dies_once(turn: Turn) -> None:
        request, again = turn.generate.request, len(rank.asked) > 1
        assert turn.generate.texts == Texts(texts=("a", "b"))
        turn.send(Accepted(request, ()), Delta(request, (), vectors=(first,)))
        if not again:
            turn.die()
            return
        turn.send(Delta(request, (), vectors=(second,)), Finished(request, "stop", 2, 0))

    cluster = await start(dies_once, timing=QUICK)
    rank = cluster.ranks[0]
    reply = await cluster.client.embeddings.create(model="llama", input=["a", "b"], encoding_format="float")
    assert [each.embedding for each in reply.data] == [[1.0], [2.0]]
    assert len(rank.asked) == 2


async def test_it_waits_for_no_place_in_the_batch_and_takes_none(start: Start) -> None:
    async def busy(turn: Turn) -> None:
        await (silent(turn) if turn.generate.question is None else read(turn))

    cluster = await start(busy, timing=QUICK)
    await cluster.routed(cluster.ranks[0], batch=1)
    answering = asyncio.create_task(cluster.post({"model": "llama", "messages": HELLO}))
    await cluster.until(lambda: len(cluster.ranks[0].asked) == 1)
    assert (await count(cluster))[0] == 200
    assert not cluster.ranks[0].cancelled, "no answer gave way to it"
    answering.cancel()


async def test_it_is_no_request_of_the_metrics_of_answers(start: Start) -> None:
    cluster = await start(read, timing=QUICK)
    await count(cluster)
    samples = await cluster.samples()
    assert not [name for name, value in samples.items() if name.startswith("vllm:") and value]
    asked = 'http_requests_total{handler="/tokenize",method="POST",status="2xx"}'
    assert samples[asked] == 1


async def test_an_older_group_is_told_of_where_no_other_knows_questions(start: Start) -> None:
    cluster = await start(older, timing=QUICK)
    status, body = await count(cluster)
    assert (status, body["error"]["code"]) == (501, "older_group")
    assert "rollout restart" in body["error"]["message"]


async def test_else_a_newer_one_answers(start: Start) -> None:
    cluster = await start(older, read, timing=QUICK)
    for _ in range(4):  # whichever is asked first
        assert (await count(cluster))[0] == 200


async def test_answers_are_as_they_were(start: Start) -> None:
    cluster = await start(story(3), timing=QUICK)
    status, _, reply = await cluster.post({"model": "llama", "messages": HELLO})
    assert (status, reply["choices"][0]["message"]["content"]) == (200, "w0 w1 w2 ")
