"""Every token of every key is counted once, however its request ends."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import orjson
import pytest

from reconciler.wire.generation import Accepted, Finished
from reconciler.wire.keys import AccessKey, SecretHash, hash_of, secret_of
from tests.gateway.conftest import Cluster, Start
from tests.gateway.rank_double import Turn, eventually

from .test_limits import written

KEYS = ("whole", "several", "left", "wild", "wrong")
SECRETS = {name: secret_of(bytes([number] * 32)) for number, name in enumerate(KEYS, 10)}
READER = secret_of(bytes([3] * 32))
AT_A_TIME = 32


async def tell(turn: Turn) -> None:
    """Do what the prompt says: ``PROMPT TOKENS END`` are the tokens of the prompt, those of the answer, and its end."""
    said = turn.generate.prompt or turn.generate.messages[0]["content"]
    size, tokens, end = said.split()[:3]
    turn.send(Accepted(turn.generate.request, tuple(range(int(size)))))
    if end == "fail":
        turn.fail("invalid_request", "no such thing")
        return
    for number in range(int(tokens)):
        if turn.cancelled.is_set():
            return
        turn.say("w ", number)
        if number % 3 == 0:
            await asyncio.sleep(0)
    if end == "hang":
        await turn.hang()
        return
    turn.send(Finished(turn.generate.request, "stop", int(size), int(tokens), 0))


class Clients:
    """Sends requests, and keeps what each key has used as far as its client knows."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random = random.Random(7)
        self.used: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()

    async def one(self, name: str) -> None:
        self.sent[name] += 1
        prompt, tokens = self._random.randint(1, 200), self._random.randint(1, 12)
        ways: dict[str, Callable[[str, int, int], Awaitable[None]]] = {
            "whole": self._whole,
            "several": self._several,
            "left": self._left,
            "wild": self._wild,
            "wrong": self._wrong,
        }
        await ways[name](name, prompt, tokens)

    async def _whole(self, name: str, prompt: int, tokens: int) -> None:
        stream = self._random.random() < 0.5
        body = {
            "messages": [{"role": "user", "content": f"{prompt} {tokens} stop"}],
            "stream": stream,
            **({"stream_options": {"include_usage": True}} if stream else {}),
        }
        async with self._post(name, "/v1/chat/completions", body) as answer:
            text = await answer.read()
        last = text.split(b"\n\n")[-3].removeprefix(b"data: ") if stream else text
        self.used[name] += orjson.loads(last)["usage"]["total_tokens"]

    async def _several(self, name: str, prompt: int, tokens: int) -> None:
        prompts = [f"{prompt} {tokens} stop", f"{prompt + 1} {tokens} stop", f"{prompt} {tokens} stop"]
        async with self._post(name, "/v1/completions", {"prompt": prompts, "n": 2}) as answer:
            body = await answer.json()
        self.used[name] += body["usage"]["total_tokens"]

    async def _left(self, name: str, prompt: int, tokens: int) -> None:
        """Go away once all tokens are there, and the end is not."""
        body = {"messages": [{"role": "user", "content": f"{prompt} {tokens} hang"}], "stream": True}
        async with self._post(name, "/v1/chat/completions", body) as answer:
            async for _ in _until(answer, tokens):
                pass
            answer.close()
        self.used[name] += prompt + tokens

    async def _wild(self, name: str, prompt: int, tokens: int) -> None:
        """Go away at any time."""
        end = self._random.choice(("stop", "hang"))
        body = {"messages": [{"role": "user", "content": f"{prompt} {tokens} {end}"}], "stream": True}
        try:
            async with asyncio.timeout(self._random.random() * 0.05):
                async with self._post(name, "/v1/chat/completions", body) as answer:
                    await answer.read()
        except TimeoutError:
            pass

    async def _wrong(self, name: str, prompt: int, tokens: int) -> None:
        body = {"messages": [{"role": "user", "content": f"{prompt} {tokens} fail"}]}
        async with self._post(name, "/v1/chat/completions", body) as answer:
            assert answer.status == 400
        self.used[name] += prompt

    def _post(self, name: str, path: str, body: dict[str, Any]) -> Any:
        data = orjson.dumps({"model": "llama", **body})
        headers = {"authorization": f"Bearer {SECRETS[name]}"}
        return self._cluster.http.post(self._cluster.url(path), data=data, headers=headers)


async def _until(answer: aiohttp.ClientResponse, tokens: int) -> AsyncIterator[None]:
    """Read a stream up to its last token."""
    seen = 0
    while seen < tokens:
        line = await answer.content.readline()
        seen += b'"content":"w ' in line
        yield


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(1000, marks=pytest.mark.second_tier),
        pytest.param(10_000, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(600)
async def test_mixed_requests_are_accounted_for_to_the_token(start: Start, count: int) -> None:
    """Whole answers, several to a prompt, clients that leave at any time, requests that fail."""
    cluster = await start(tell, tell)
    keys = [AccessKey(name, (SecretHash(hash_of(secret)),)) for name, secret in SECRETS.items()]
    reader = AccessKey("reader", (SecretHash(hash_of(READER)),), metrics=True)
    await cluster.routed(*cluster.ranks, keys=(*keys, reader))
    clients, room = Clients(cluster), asyncio.Semaphore(AT_A_TIME)

    async def in_turn(name: str) -> None:
        async with room:
            await clients.one(name)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(in_turn(KEYS[number % len(KEYS)]))
    samples = await settled(cluster)
    used = {
        name: samples[f'reconciler_key_prompt_tokens_total{{key="{name}"}}']
        + samples[f'reconciler_key_generation_tokens_total{{key="{name}"}}']
        for name in KEYS
    }
    for name in KEYS:
        if name != "wild":
            assert used[name] == clients.used[name], name
            assert samples[f'reconciler_key_requests_total{{key="{name}"}}'] == clients.sent[name]
    # What a client that leaves at any time has used nobody knows but the gateway: here by another way of counting.
    generated = sum(samples[f'reconciler_key_generation_tokens_total{{key="{name}"}}'] for name in KEYS)
    assert generated == samples['vllm:generation_tokens_total{model_name="llama"}']
    await eventually(lambda: written(cluster) == used)


async def settled(cluster: Cluster) -> dict[str, float]:
    """The metrics once every request has ended."""
    for _ in range(500):
        samples = await cluster.samples(**{"api-key": READER})
        running = [
            samples[f'vllm:num_requests_{what}{{model_name="llama"}}'] for what in ("running", "waiting")
        ]
        if not any(running):
            break
        await asyncio.sleep(0.02)
    return await cluster.samples(**{"api-key": READER})
