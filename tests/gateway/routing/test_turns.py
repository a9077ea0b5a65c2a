"""Requests that wait for a place in a group's batch, before a real gateway."""

from __future__ import annotations

import asyncio
from typing import Any

from reconciler.gateway.routing.timeouts import Timing
from tests.gateway.conftest import Cluster, Start
from tests.gateway.rank_double import Script, Turn, story, told

LONG, SHORT = 60, 3
QUICK = Timing(shutdown=0.5, hello=60.0, routes_idle=0.02)


async def begin(start: Start, script: Script, batch: int) -> Cluster:
    """A gateway before one group of so many places."""
    cluster = await start(script, timing=QUICK)
    await cluster.routed(cluster.ranks[0], batch=batch)
    return cluster


async def ask(cluster: Cluster, what: str, key: str = "", **fields: Any) -> str:
    """The text of the answer to ``what``."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = {"model": "llama", "messages": [{"role": "user", "content": what}], **fields}
    status, _, reply = await cluster.post(body, **headers)
    assert status == 200, reply
    return str(reply["choices"][0]["message"]["content"])


def asked(cluster: Cluster) -> list[str]:
    """What the group was asked, in this order."""
    return [str(generate.messages[0]["content"]) for generate in cluster.ranks[0].asked]


class Gate:
    """A script that says nothing until it is told to, one request at a time."""

    def __init__(self) -> None:
        self.turns: asyncio.Queue[Turn] = asyncio.Queue()

    async def __call__(self, turn: Turn) -> None:
        turn.accept()
        self.turns.put_nowait(turn)
        await turn.hang()

    async def finish(self) -> None:
        turn = await self.turns.get()
        turn.say("done", 1)
        turn.finish()


async def test_a_group_is_asked_as_much_as_it_decodes_and_the_rest_in_fair_order(start: Start) -> None:
    gate = Gate()
    cluster = await begin(start, gate, batch=2)
    async with asyncio.TaskGroup() as tasks:
        for number in range(4):
            tasks.create_task(ask(cluster, f"a{number}", key="a"))
            await cluster.until_waiting(number + 1)
        tasks.create_task(ask(cluster, "b", key="b"))
        await cluster.until_waiting(5)
        await cluster.ranks[0].until(lambda rank: gate.turns.qsize() == 2)
        assert asked(cluster) == ["a0", "a1"]
        for count in (3, 4, 5):
            await gate.finish()
            await cluster.ranks[0].until(lambda rank, count=count: len(rank.asked) == count)  # type: ignore[misc]
        for _ in range(2):
            await gate.finish()
    assert asked(cluster) == ["a0", "a1", "b", "a2", "a3"]
    assert cluster.ranks[0].cancelled == []


async def test_a_short_request_goes_between_and_the_long_answer_has_no_gap(start: Start) -> None:
    async def tell(turn: Turn) -> None:
        short = turn.generate.tokens_max == SHORT
        await (story(SHORT) if short else story(LONG, pause=0.005))(turn)

    cluster = await begin(start, tell, batch=1)
    long = asyncio.create_task(ask(cluster, "long"))
    await cluster.until_sample('vllm:num_requests_running{model_name="llama"}', 1)
    assert await ask(cluster, "short", max_tokens=SHORT) == told(SHORT)
    assert not long.done()
    assert await long == told(LONG)
    assert asked(cluster) == ["long", "short", "long"]
    again = cluster.ranks[0].asked[2].resume
    assert 0 < len(again) < LONG
    assert again == tuple(range(len(again)))
    seen = await cluster.samples()
    assert seen['reconciler_requests_gave_way_total{model_name="llama"}'] == 1
    assert seen['reconciler_requests_continued_total{model_name="llama"}'] == 0
    assert seen['vllm:generation_tokens_total{model_name="llama"}'] == LONG + SHORT


async def test_a_client_with_one_request_takes_the_place_of_one_with_many(start: Start) -> None:
    cluster = await begin(start, story(LONG, pause=0.005), batch=3)
    async with asyncio.TaskGroup() as tasks:
        many = [tasks.create_task(ask(cluster, "many", key="a")) for _ in range(6)]
        await cluster.until_sample('vllm:num_requests_running{model_name="llama"}', 3)
        one = tasks.create_task(ask(cluster, "one", key="b"))
        await cluster.ranks[0].until(lambda rank: "one" in asked(cluster))
        assert not any(task.done() for task in many)
    assert [task.result() for task in (*many, one)] == [told(LONG)] * 7
    assert len(cluster.ranks[0].cancelled) == 1


async def test_who_leaves_while_waiting_makes_room_for_the_next(start: Start) -> None:
    gate = Gate()
    cluster = await begin(start, gate, batch=1)
    first = asyncio.create_task(ask(cluster, "first"))
    await cluster.ranks[0].until(lambda rank: len(rank.asked) == 1)
    leaves = asyncio.create_task(ask(cluster, "leaves"))
    await cluster.until_waiting(2)
    stays = asyncio.create_task(ask(cluster, "stays"))
    await cluster.until_waiting(3)
    leaves.cancel()
    await cluster.until_waiting(2)
    await gate.finish()
    await cluster.ranks[0].until(lambda rank: len(rank.asked) == 2)
    await gate.finish()
    assert [await first, await stays] == ["done", "done"]
    assert asked(cluster) == ["first", "stays"]


async def test_those_that_wait_go_to_a_group_that_comes_later(start: Start) -> None:
    gate = Gate()
    cluster = await begin(start, gate, batch=1)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ask(cluster, "first"))
        await cluster.ranks[0].until(lambda rank: len(rank.asked) == 1)
        waits = [tasks.create_task(ask(cluster, "waits")) for _ in range(3)]
        await cluster.until_waiting(4)
        other = await cluster.rank(story(2))
        cluster.route(cluster.ranks[0], other, batch=1)
        await asyncio.wait(waits)
        await gate.finish()
    assert [task.result() for task in waits] == [told(2)] * 3


async def test_those_that_wait_are_held_when_their_group_is_gone(start: Start) -> None:
    cluster = await begin(start, Gate(), batch=1)
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(ask(cluster, "any")) for _ in range(3)]
        await cluster.until_waiting(3)
        await cluster.ranks[0].stop()
        cluster.route(await cluster.rank(story(2), epoch=2), batch=1)
    assert [task.result() for task in asking] == [told(2)] * 3
