"""An answer says who works on it, and when nobody does, to clients that want to know."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import Turn, story, told

TOLD = 7
"""Words that the first group tells."""


async def chunks(cluster: Cluster) -> list[dict[str, Any]]:
    return [chunk async for chunk in cluster.chunks(return_groups=True)]


def reports(found: list[dict[str, Any]]) -> list[Any]:
    """How the answer fared, in order, and its text where it came."""
    seen: list[Any] = []
    for chunk in found:
        text = "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
        if "group" in chunk:
            seen.append(("group", chunk["group"]["epoch"]))
        elif "waiting" in chunk:
            seen.append(("waiting", chunk["waiting"]["for"]))
        elif text and seen and isinstance(seen[-1], str):
            seen[-1] += text
        elif text:
            seen.append(text)
    return seen


async def begin_and_die(start: Start) -> Cluster:
    """A cluster whose only group will die for good in the middle of its first answer."""
    cluster = await start(story(20, die_after=TOLD))
    (rank,) = cluster.ranks
    dying = rank.script

    async def die_for_good(turn: Turn) -> None:
        rank.refuse()
        await dying(turn)

    rank.script = die_for_good
    return cluster


async def replace_group(cluster: Cluster) -> None:
    """Form another group once the first one is gone."""
    await cluster.ranks[0].until(lambda rank: rank.left)
    await cluster.until_connected(0)
    cluster.route(await cluster.rank(story(20), epoch=2))


async def test_a_stream_begins_with_the_group_that_answers(start: Start) -> None:
    cluster = await start(story(3))
    found = await chunks(cluster)
    assert found[0]["group"] == {"index": 0, "replica": 0, "epoch": 1, "nodes": ["node-a", "node-b"]}
    assert found[0]["choices"] == []
    assert reports(found) == [("group", 1), told(3)]


async def test_a_stream_whose_group_dies_says_that_it_waits_and_which_group_goes_on(start: Start) -> None:
    cluster = await begin_and_die(start)
    asking = asyncio.create_task(chunks(cluster))
    await replace_group(cluster)
    cut = len(told(TOLD))
    assert reports(await asking) == [
        ("group", 1),
        told(20)[:cut],
        ("waiting", "group"),
        ("group", 2),
        told(20)[cut:],
    ]


async def test_a_request_that_waits_for_its_turn_says_so(start: Start) -> None:
    let_go = asyncio.Event()

    async def long(turn: Turn) -> None:
        turn.accept()
        turn.say("w", 0)
        await let_go.wait()
        turn.finish()

    cluster = await start(long)
    await cluster.routed(cluster.ranks[0], batch=1)
    first = asyncio.create_task(chunks(cluster))
    await cluster.until(lambda: len(cluster.ranks[0].asked) == 1)
    second = asyncio.create_task(chunks(cluster))
    await cluster.until_waiting(1)
    let_go.set()
    assert reports(await first)[0] == ("group", 1)
    assert reports(await second)[:2] == [("waiting", "turn"), ("group", 1)]


async def test_a_long_prompt_says_how_much_of_it_has_been_read(start: Start) -> None:
    known = asyncio.Semaphore(0)

    async def slow(turn: Turn) -> None:
        turn.accept()
        for part in (1, 2):
            turn.prefill(2048 * part, 5000)
            await known.acquire()
        turn.prefill(5000, 5000)
        turn.say("w", 0)
        turn.finish()

    cluster = await start(slow)
    read = []
    async for chunk in cluster.chunks(return_groups=True):
        if "reading" in chunk:
            read.append(chunk["reading"])
            known.release()
    assert read == [{"index": 0, "done": done, "total": 5000} for done in (2048, 4096)]


async def test_a_whole_answer_has_every_group_that_worked_on_it(start: Start) -> None:
    cluster = await begin_and_die(start)
    body = {"model": "llama", "messages": HELLO, "return_groups": True}
    asking = asyncio.create_task(cluster.post(body))
    await replace_group(cluster)
    _, _, reply = await asking
    assert [group["epoch"] for group in reply["groups"]] == [1, 2]
    assert reply["choices"][0]["message"]["content"] == told(20)


async def test_who_does_not_ask_is_told_nothing_of_it(start: Start) -> None:
    cluster = await start(story(3))
    _, _, reply = await cluster.post({"model": "llama", "messages": HELLO})
    assert "groups" not in reply
    assert not any('"group"' in line for line in await cluster.events())
