"""Real ranks keep and reuse the same prefixes, each its own part of them, and share the same memory."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from reconciler.runner.model.caches import footprint
from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.wire.launch import CACHE_STEP

from .conftest import greedy_tokens
from .ranks import Client, Group, Reply, connected, question, running

ROOM = 1 << 20
LENGTHS = {"long": 900, "short": 30, "shorter": 10, "other": 50}


async def _conversation(client: Client, model: Path, turns: int) -> list[int]:
    """How many tokens of each prompt were not read; answers are those of a model that reads everything."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Answer in few words. " * 10}]
    cached = []
    before = 0
    for turn in range(turns):
        messages.append({"role": "user", "content": f"What is {turn} times {turn}?"})
        reply = await client.ask(f"turn {turn}", "", messages=tuple(messages), tokens_max=8)
        assert reply.tokens == greedy_tokens(model, list(reply.prompt), 8)
        messages.append({"role": "assistant", "content": reply.text})
        cached.append(reply.last.cached_tokens)
        assert not before or cached[-1] >= before - 1, "all that the turn before had read"
        before = len(reply.prompt)
    return cached


async def _together(client: Client, model: Path) -> list[Reply]:
    """Four with one system prompt, two and two together, one of which its client gives up."""
    names = "abcd"
    asked = [
        question(
            name,
            "",
            messages=(
                {"role": "system", "content": "Be brief, be bright, be gone. " * 8},
                {"role": "user", "content": name * 9},
            ),
            tokens_max=30,
        )
        for name in names
    ]
    client.send(*asked[:2])
    begun = {"b": [await client.next("b")]}  # a request that is cancelled before it is accepted has no answer
    client.cancel("b")
    replies = [await client.reply(name, *begun.get(name, ())) for name in names[:2]]
    client.send(*asked[2:])
    replies += [await client.reply(name) for name in names[2:]]
    for reply in replies:
        expected = greedy_tokens(model, list(reply.prompt), 30)
        assert reply.tokens == expected[: len(reply.tokens)]
    return replies


@pytest.mark.parametrize("strategy", ["tensor", "pipeline"])
def test_ranks_answer_turn_after_turn_as_if_they_had_read_all_of_it(layered: Path, strategy: str) -> None:
    async def talk(group: Group) -> None:
        async with connected(group.socket) as client:
            cached = await _conversation(client, layered, 4)
            assert cached[0] == 0
            replies = await _together(client, layered)
            assert max(reply.last.cached_tokens for reply in replies) > 200

    with running(layered, 2, strategy=strategy, context=1024, prefix_cache_bytes=ROOM) as group:
        asyncio.run(talk(group.ready()))
        assert group.terminate() == [0, 0]


def test_a_group_that_is_formed_again_has_nothing_kept(layered: Path) -> None:
    async def talk(group: Group, cached: int) -> None:
        async with connected(group.socket) as client:
            assert (await _conversation(client, layered, 2))[0] == cached

    with running(layered, 1, context=1024, prefix_cache_bytes=ROOM) as group:
        asyncio.run(talk(group.ready(), 0))
        os.kill(group.ranks[0].process.pid, signal.SIGKILL)
    with running(layered, 1, context=1024, prefix_cache_bytes=ROOM) as group:
        asyncio.run(talk(group.ready(), 0))


@pytest.mark.second_tier
@pytest.mark.parametrize("strategy", ["tensor", "pipeline"])
def test_ranks_share_little_memory_among_long_and_short_requests_alike(layered: Path, strategy: str) -> None:
    """There is no room for them in one rectangle, nor for all of them to their ends."""
    prompts = {name: [2 + number] * length for number, (name, length) in enumerate(LENGTHS.items())}

    async def talk(group: Group) -> None:
        async with connected(group.socket) as client:
            for name, prompt in prompts.items():
                client.send(question(name, "", prompt_tokens=tuple(prompt), tokens_max=120, client=name))
            for name, prompt in prompts.items():
                reply = await client.reply(name)
                assert reply.tokens == greedy_tokens(layered, prompt, 120), name

    loaded = load_shard(inspect(str(layered)), None, "tensor", trust_remote_code=False)
    room = footprint(loaded.model, None).bytes(1600 + 2 * CACHE_STEP) // 2
    with running(layered, 2, strategy=strategy, context=2048, kv_cache_bytes=(room, room)) as group:
        asyncio.run(talk(group.ready()))
        assert group.terminate() == [0, 0]
