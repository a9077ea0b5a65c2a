"""Web pages of other sites, as browsers ask for them."""

from __future__ import annotations

import pytest

from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.keys import AccessKey, SecretHash, hash_of
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import story

QUICK = Timing(shutdown=0.5, hello=60.0, routes_idle=0.02)
PAGE = "https://app.example.com"
SDK_HEADERS = (
    "authorization,content-type,anthropic-dangerous-direct-browser-access,anthropic-version,x-api-key,"
    "x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,x-stainless-retry-count,"
    "x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout,openai-organization,openai-project"
)
"""What the SDKs of OpenAI and Anthropic send from a page, beside what needs no question."""


async def question(cluster: Cluster, origin: str, **headers: str) -> tuple[int, dict[str, str]]:
    """The answer to what a browser asks before a page's request."""
    asked = {"origin": origin, "access-control-request-method": "POST", **headers}
    async with cluster.http.options(cluster.url("/v1/chat/completions"), headers=asked) as answer:
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}


async def opened(start: Start, *origins: str, keys: bool = False) -> Cluster:
    cluster = await start(story(1), timing=QUICK)
    cluster.front = {"origins": origins}
    secrets = (AccessKey("webui", (SecretHash(hash_of("sk-1")),)),)
    await cluster.routed(*cluster.ranks, keys=secrets if keys else None)
    return cluster


async def test_a_declared_page_may_ask_with_the_headers_of_its_sdk_and_never_with_cookies(
    start: Start,
) -> None:
    cluster = await opened(start, PAGE)
    headers = {
        "access-control-request-headers": SDK_HEADERS,
        "access-control-request-private-network": "true",
    }
    status, answered = await question(cluster, PAGE, **headers)
    assert status == 204
    assert answered["access-control-allow-origin"] == PAGE
    assert answered["access-control-allow-methods"] == "GET, HEAD, POST"
    assert answered["access-control-allow-headers"] == SDK_HEADERS
    assert answered["access-control-allow-private-network"] == "true"
    assert "origin" in answered["vary"].lower()
    assert "access-control-allow-credentials" not in answered
    status, answered, body = await cluster.post({"model": "llama", "messages": HELLO}, origin=PAGE)
    assert (status, body["choices"][0]["message"]["content"]) == (200, "w0 ")
    assert answered["access-control-allow-origin"] == PAGE
    assert answered["access-control-expose-headers"] == "*"


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://app.example.com", f"{PAGE}:8443", f"{PAGE}.evil.example", "null", "*"],
)
async def test_origins_are_compared_as_a_whole_and_others_are_refused_as_before(
    start: Start, origin: str
) -> None:
    cluster = await opened(start, PAGE)
    status, answered = await question(cluster, origin)
    assert status == 403
    assert "access-control-allow-origin" not in answered
    status, answered, body = await cluster.post({"model": "llama", "messages": HELLO}, origin=origin)
    assert (status, body["error"]["code"]) == (403, "foreign_origin")
    assert "access-control-allow-origin" not in answered


async def test_errors_can_be_read_by_a_declared_page_too(start: Start) -> None:
    cluster = await opened(start, PAGE, keys=True)
    status, answered, body = await cluster.post({"model": "llama", "messages": HELLO}, origin=PAGE)
    assert (status, body["error"]["code"]) == (401, "invalid_api_key")
    assert answered["access-control-allow-origin"] == PAGE


async def test_every_page_may_ask_where_all_are_declared_but_none_without_a_key(start: Start) -> None:
    cluster = await opened(start, "*", keys=True)
    status, answered = await question(cluster, "https://anything.example")
    assert (status, answered["access-control-allow-origin"]) == (204, "*")
    request = {"model": "llama", "messages": HELLO}
    assert (await cluster.post(request, origin="https://anything.example"))[0] == 401
    key = {"authorization": "Bearer sk-1"}
    assert (await cluster.post(request, origin="https://anything.example", **key))[0] == 200


async def test_a_page_cannot_have_other_headers_written_into_the_answer(start: Start) -> None:
    cluster = await opened(start, PAGE)
    status, answered = await question(cluster, PAGE, **{"access-control-request-headers": "a;b=<script>"})
    assert status == 204
    assert "access-control-allow-headers" not in answered
