"""Who may ask: with keys on, whoever has one that is good, for the models that it may use."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import openai
import pytest
from starlette.types import Message, Scope

from reconciler.gateway.dialects.table import DEFAULT
from reconciler.gateway.errors import ApiError
from reconciler.gateway.http.authentication import Authentication
from reconciler.gateway.http.paths import Endpoint, Paths
from reconciler.wire.generation import Route
from reconciler.wire.keys import AccessKey, SecretHash, hash_of, secret_of
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import story

SECRET = secret_of(bytes(range(32)))
OTHER = secret_of(bytes(reversed(range(32))))
BODY = {"model": "llama", "messages": HELLO}


def key(name: str = "webui", secret: str = SECRET, **fields: Any) -> AccessKey:
    return AccessKey(name, (SecretHash(hash_of(secret)),), **fields)


async def asked(cluster: Cluster, **headers: str) -> tuple[int, str, str]:
    """Status, code and text of the answer to a chat completion."""
    status, _, body = await cluster.post(BODY, **headers)
    error = body.get("error", {})
    return status, error.get("code", ""), error.get("message", "")


@pytest.fixture
async def cluster(start: Start) -> Cluster:
    """A gateway with keys on, one group, and one key."""
    made = await start(story(3))
    made.route(*made.ranks, keys=(key(),))
    await made.until(made.up)
    return made


async def test_a_secret_may_come_in_each_header_that_clients_use(cluster: Cluster) -> None:
    sent: tuple[dict[str, str], ...] = (
        {"Authorization": f"Bearer {SECRET}"},
        {"Authorization": f"bearer  {SECRET}"},
        {"x-api-key": SECRET},
        {"api-key": SECRET},
        {"Authorization": "Bearer none", "x-api-key": SECRET},
    )
    for headers in sent:
        assert (await asked(cluster, **headers))[0] == 200


async def test_any_other_request_is_refused_and_says_why(cluster: Cluster) -> None:
    sent: tuple[tuple[dict[str, str], str], ...] = (
        ({}, "needs an API key"),
        ({"Authorization": f"Basic {SECRET}"}, "needs an API key"),
        ({"Authorization": "Bearer sk-1234"}, "no key here has it"),
        ({"Authorization": f"Bearer {OTHER}"}, "no key here has it"),
        ({"Authorization": f"Bearer {SECRET[:-1]}"}, "cut off or mistyped"),
        ({"x-api-key": SECRET.swapcase()}, "no key here has it"),
    )
    for headers, says in sent:
        status, code, text = await asked(cluster, **headers)
        assert (status, code) == (401, "invalid_api_key")
        assert says in text
        assert SECRET not in text
        async with cluster.http.post(cluster.url("/v1/chat/completions"), headers=headers) as answer:
            assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_key_that_has_ended_says_how(cluster: Cluster) -> None:
    past, later = time.time() - 1, time.time() + 3600
    for made, code, says in [
        (key(revoked=True), "revoked_api_key", "was revoked"),
        (key(expires=past), "expired_api_key", "has expired"),
        (
            AccessKey("webui", (SecretHash(hash_of(OTHER)), SecretHash(hash_of(SECRET), past))),
            "expired_api_key",
            "newer secret",
        ),
    ]:
        await cluster.routed(*cluster.ranks, keys=(made,))
        status, found, text = await asked(cluster, **{"x-api-key": SECRET})
        assert (status, found) == (401, code)
        assert says in text
    overlap = AccessKey("webui", (SecretHash(hash_of(OTHER)), SecretHash(hash_of(SECRET), later)))
    await cluster.routed(*cluster.ranks, keys=(overlap,))
    for secret in (SECRET, OTHER):
        assert (await asked(cluster, **{"x-api-key": secret}))[0] == 200


async def test_a_key_knows_only_the_models_that_it_may_use(cluster: Cluster) -> None:
    beside = Route("qwen", ("gpt-5",), 4096, 1_700_000_000)
    await cluster.routed(*cluster.ranks, keys=(key(models=("llama",)),), beside=(beside,))
    client = openai.AsyncOpenAI(base_url=cluster.url("/v1"), api_key=SECRET, max_retries=0)
    async with client:
        assert [model.id async for model in await client.models.list()] == ["llama", "gpt-4o"]
        await client.chat.completions.create(model="gpt-4o", messages=HELLO)
        for name in ("qwen", "gpt-5"):
            with pytest.raises(openai.PermissionDeniedError, match="may not use the model"):
                await client.chat.completions.create(model=name, messages=HELLO)
            with pytest.raises(openai.PermissionDeniedError):
                await client.models.retrieve(name)
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("nothing")


async def test_probes_need_no_key_and_metrics_one_that_may_read_them(cluster: Cluster) -> None:
    reader = key("prometheus", OTHER, metrics=True)
    await cluster.routed(*cluster.ranks, keys=(key(), reader))
    for path, secret, status in [
        ("/health", "", 200),
        ("/ready", "", 200),
        ("/metrics", "", 401),
        ("/metrics", SECRET, 403),
        ("/metrics", OTHER, 200),
        ("/v1/models", "", 401),
        ("/v1/nothing", "", 401),
        ("/v1/nothing", SECRET, 404),
    ]:
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        async with cluster.http.get(cluster.url(path), headers=headers) as answer:
            assert (path, answer.status) == (path, status)


async def test_with_keys_any_host_name_is_right_and_foreign_pages_stay_out(cluster: Cluster) -> None:
    for headers, status in [
        ({"host": "ai.example.com"}, 200),
        ({"host": "ai.example.com:8400", "origin": "https://ai.example.com"}, 200),
        ({"host": "ai.example.com", "origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ]:
        assert (await asked(cluster, **headers, **{"x-api-key": SECRET}))[0] == status


async def test_without_keys_secrets_are_not_looked_at(cluster: Cluster) -> None:
    await cluster.routed(*cluster.ranks)
    assert (await asked(cluster))[0] == 200
    assert (await asked(cluster, Authorization="Bearer anything"))[0] == 200


@pytest.mark.second_tier
async def test_the_address_may_become_that_of_all_machines_on_the_same_port_and_a_stream_goes_on(
    start: Start,
) -> None:
    cluster = await start(story(40, pause=0.05))
    streaming = asyncio.create_task(cluster.events())
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    port = cluster.listen.rpartition(":")[2]
    cluster.listen = f"0.0.0.0:{port}"
    cluster.route(*cluster.ranks, keys=(key(),))
    await cluster.until(lambda: cluster.state()["listen"] == cluster.listen)
    assert cluster.state()["endpoint"].startswith("http://127.0.0.1:")
    cluster.listen = f"127.0.0.1:{port}"
    assert (await asked(cluster))[0] == 401
    assert (await asked(cluster, **{"x-api-key": SECRET}))[0] == 200
    assert (await streaming)[-1] == "data: [DONE]"


def test_without_keys_no_other_machine_is_answered_whatever_the_gateway_listens_on() -> None:
    """Its address and its keys change one after the other."""
    endpoint = Endpoint("GET", "/v1/models", _nothing, DEFAULT)
    authentication = Authentication(Paths([endpoint], DEFAULT), lambda: None, time.time)
    for address in ("192.168.1.7", "fe80::1", "127.0.0.1", "::1"):
        scope: Scope = {"type": "http", "path": "/v1/models", "headers": [], "client": (address, 5000)}
        if address in ("127.0.0.1", "::1"):
            assert authentication.caller(scope).client == f"address {address}"
        else:
            with pytest.raises(ApiError) as refused:
                authentication.caller(scope)
            assert refused.value.status == 403


async def _nothing() -> Message:
    return {"type": "http.request"}


async def test_without_keys_a_secret_is_the_same_client_whichever_header_has_it(start: Start) -> None:
    cluster = await start(story(1))
    sent: tuple[dict[str, str], ...] = (
        {"Authorization": "Bearer a"},
        {"x-api-key": "a"},
        {"x-api-key": "b"},
        {},
    )
    for headers in sent:
        assert (await asked(cluster, **headers))[0] == 200
    bearer, header, other, none = [request.client for request in cluster.ranks[0].asked]
    assert bearer == header
    assert len({bearer, other, none}) == 3
