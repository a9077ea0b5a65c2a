"""Limits of keys at a real gateway: what is refused, what clients are told, and what is counted."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anthropic
import openai
import orjson
import pytest

from reconciler.gateway.errors import ApiError
from reconciler.gateway.keys.caller import KeyRing
from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.keys.usage import Usage
from reconciler.gateway.state_file import UsageFile
from reconciler.wire.generation import Generate
from reconciler.wire.keys import AccessKey, KeyLimits, SecretHash, hash_of, secret_of
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import PROMPT, Script, Turn, eventually, story

SECRETS = [secret_of(bytes([number] * 32)) for number in range(4)]


def key(number: int = 0, **limits: int) -> AccessKey:
    secret = SecretHash(hash_of(SECRETS[number]))
    return AccessKey(f"key-{number}", (secret,), limits=KeyLimits(**limits))


async def endless(turn: Turn) -> None:
    turn.accept()
    turn.say("w ", 1)
    await turn.hang()


async def started(start: Start, script: Script, *keys: AccessKey, **options: Any) -> Cluster:
    """A gateway with keys on and one group."""
    cluster = await start(script, **options)
    await cluster.routed(*cluster.ranks, keys=keys)
    return cluster


def client(cluster: Cluster, number: int = 0) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=cluster.url("/v1"), api_key=SECRETS[number], max_retries=0, timeout=60)


async def ask(
    cluster: Cluster, number: int = 0, path: str = "/v1/chat/completions", **fields: Any
) -> tuple[int, dict[str, str], Any]:
    body = orjson.dumps({"model": "llama", "messages": HELLO, **fields})
    headers = {"x-api-key": SECRETS[number]}
    async with cluster.http.post(cluster.url(path), data=body, headers=headers) as answer:
        return answer.status, {k.lower(): v for k, v in answer.headers.items()}, await answer.json()


async def test_requests_a_minute_are_counted_and_refused_with_what_sdks_read(start: Start) -> None:
    cluster = await started(start, story(3), key(requests_per_minute=2, tokens_per_minute=10_000), key(1))
    _, headers, _ = await ask(cluster, max_tokens=50)
    assert (headers["x-ratelimit-limit-requests"], headers["x-ratelimit-remaining-requests"]) == ("2", "1")
    assert headers["x-ratelimit-reset-requests"] in ("1m0s", "1m1s")
    assert headers["x-ratelimit-limit-tokens"] == "10000"
    assert 9000 < int(headers["x-ratelimit-remaining-tokens"]) < 10_000 - 50
    await ask(cluster)
    status, headers, body = await ask(cluster)
    assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
    assert "2 requests a minute" in body["error"]["message"]
    assert 50 <= int(headers["retry-after"]) <= 61
    assert headers["x-should-retry"] == "true"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    status, headers, _ = await ask(cluster, 1)
    assert status == 200
    assert not [name for name in headers if name.startswith("x-ratelimit")]


async def test_anthropics_clients_are_told_in_the_headers_that_they_read(start: Start) -> None:
    cluster = await started(start, story(3), key(requests_per_minute=1, tokens_per_day=5000))
    _, headers, _ = await ask(cluster, path="/v1/messages", max_tokens=50)
    assert headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert headers["anthropic-ratelimit-tokens-limit"] == "5000"
    reset = datetime.datetime.fromisoformat(headers["anthropic-ratelimit-requests-reset"])
    assert 50 < (reset - datetime.datetime.now(datetime.UTC)).total_seconds() <= 62
    sdk = anthropic.AsyncAnthropic(base_url=cluster.url(""), api_key=SECRETS[0], max_retries=0)
    async with sdk:
        with pytest.raises(anthropic.RateLimitError, match="1 requests a minute") as refused:
            await sdk.messages.create(model="llama", messages=HELLO, max_tokens=50)
    assert int(refused.value.response.headers["retry-after"]) > 50
    assert not [name for name in headers if name.startswith("x-ratelimit")]


async def test_tokens_are_settled_at_the_end_so_that_what_was_not_used_is_left(start: Start) -> None:
    cluster = await started(start, story(3), key(tokens_per_minute=120))
    used = len(PROMPT) + 3
    for number in range(4):
        status, headers, _ = await ask(cluster, max_tokens=80)
        assert status == 200, number
    status, headers, _ = await ask(cluster, max_tokens=1)
    left = int(headers["x-ratelimit-remaining-tokens"])
    assert 120 - 4 * used - 30 < left < 120 - 4 * used
    status, headers, body = await ask(cluster, max_tokens=500)
    assert (status, headers["x-should-retry"]) == (429, "false")
    assert "at any time" in body["error"]["message"]


async def test_a_days_budget_ends_without_a_retry_and_is_written_down(start: Start) -> None:
    limited = key(tokens_per_day=40)
    cluster = await started(start, story(30), limited)
    assert (await ask(cluster, max_tokens=30))[0] == 200
    status, headers, body = await ask(cluster, max_tokens=30)
    assert (status, body["error"]["code"]) == (429, "insufficient_quota")
    assert headers["x-should-retry"] == "false"
    assert "retry-after" not in headers
    await eventually(lambda: (cluster.home / "usage.json").exists())
    saved = orjson.loads((cluster.home / "usage.json").read_bytes())["keys"]
    assert [(each["name"], each["tokens"], each["requests"]) for each in saved] == [("key-0", 33, 1)]
    assert (cluster.home / "usage.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.second_tier
async def test_a_restart_goes_on_with_the_days_counts_also_of_what_was_cut_off(start: Start) -> None:
    cluster = await started(start, story(100_000, pause=0.01), key(tokens_per_day=100_000), key(1))
    streaming = asyncio.create_task(ask(cluster, max_tokens=90_000))
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    await eventually(lambda: bool(written(cluster).get("key-0")))
    cluster.stop.set()
    await streaming
    await eventually(lambda: not (cluster.home / "usage.json").with_name(".usage.json.new").exists())
    used = written(cluster)["key-0"]
    assert used > len(PROMPT)
    desk = Desk(time.time, time.monotonic)
    UsageFile(cluster.home / "usage.json", desk)
    caller = KeyRing([key(tokens_per_day=100_000)]).identify(SECRETS[0], time.time())
    for tokens_max, fits in ((100_000 - used + 1, False), (100_000 - used - 20, True)):
        generate = Generate("", ({"role": "user", "content": ""},), tokens_max=tokens_max)
        if fits:
            await desk.admit(caller, [generate], 1, Idle())
        else:
            with pytest.raises(ApiError, match="tokens a day"):
                await desk.admit(caller, [generate], 1, Idle())


class Idle:
    """A request that uses nothing."""

    def usage(self, answers: int) -> Usage:
        return Usage()

    def end(self, error: ApiError) -> None:
        raise error


def written(cluster: Cluster) -> dict[str, int]:
    """The tokens of the day of each key, as they are written down."""
    file = cluster.home / "usage.json"
    keys = orjson.loads(file.read_bytes())["keys"] if file.exists() else []
    return {each["name"]: each["tokens"] for each in keys}


async def test_parallel_requests_are_bounded_and_a_client_that_goes_gives_its_place_back(
    start: Start,
) -> None:
    cluster = await started(start, endless, key(parallel_requests=1))
    async with client(cluster) as sdk:
        stream = await sdk.chat.completions.create(model="llama", messages=HELLO, stream=True)
        await anext(aiter(stream))
        with pytest.raises(openai.RateLimitError, match="1 requests at a time"):
            await sdk.chat.completions.create(model="llama", messages=HELLO)
        await stream.close()
        for _ in range(500):
            with suppress(openai.RateLimitError):
                stream = await sdk.chat.completions.create(model="llama", messages=HELLO, stream=True)
                break
            await asyncio.sleep(0.01)
        await anext(aiter(stream))
        await stream.close()


async def test_what_is_not_the_clients_fault_does_not_count(start: Start) -> None:
    cluster = await start(hold_seconds=0.1)
    await cluster.routed(keys=(key(requests_per_minute=1),))
    for _ in range(3):
        status, _, body = await ask(cluster)
        assert (status, body["error"]["code"]) == (503, "model_loading")


async def test_streams_of_a_key_that_is_revoked_end_and_say_why(start: Start) -> None:
    cluster = await started(start, endless, key(), key(1))
    async with client(cluster) as mine, client(cluster, 1) as others:
        stream = await mine.chat.completions.create(model="llama", messages=HELLO, stream=True)
        other = await others.chat.completions.create(model="llama", messages=HELLO, stream=True)
        parts, other_parts = aiter(stream), aiter(other)
        await anext(parts)
        await anext(other_parts)
        revoked = AccessKey("key-0", key().secrets, revoked=True)
        cluster.route(*cluster.ranks, keys=(revoked, key(1)))
        began = asyncio.get_running_loop().time()
        with pytest.raises(openai.APIError, match="was revoked"):
            await read_on(parts)
        assert asyncio.get_running_loop().time() - began < 1
        with pytest.raises(openai.AuthenticationError, match="was revoked"):
            await mine.models.list()
        await cluster.until(lambda: len(cluster.ranks[0].cancelled) == 1)
        cluster.route(*cluster.ranks, keys=(revoked,))
        with pytest.raises(openai.APIError, match="was removed"):
            await read_on(other_parts)


async def read_on(parts: AsyncIterator[Any]) -> None:
    """Read a stream to its end."""
    async for _ in parts:
        pass


async def test_each_key_has_its_own_figures_and_they_are_gone_with_it(start: Start) -> None:
    reader = AccessKey("reader", (SecretHash(hash_of(SECRETS[3])),), metrics=True)
    cluster = await started(start, story(3), key(requests_per_minute=1), key(1), reader)
    for number in (0, 0, 1):
        await ask(cluster, number)
    samples = await cluster.samples(**{"api-key": SECRETS[3]})
    assert samples['reconciler_key_requests_total{key="key-0"}'] == 1
    assert samples['reconciler_key_refused_total{key="key-0",limit="requests_per_minute"}'] == 1
    assert samples['reconciler_key_prompt_tokens_total{key="key-1"}'] == len(PROMPT)
    assert samples['reconciler_key_generation_tokens_total{key="key-1"}'] == 3
    assert samples['reconciler_key_tokens_today{key="key-1"}'] == len(PROMPT) + 3
    await cluster.routed(*cluster.ranks, keys=(key(), reader))
    assert not [name for name in await cluster.samples(**{"api-key": SECRETS[3]}) if "key-1" in name]
