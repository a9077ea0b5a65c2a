"""A gateway whose routes name a store says whether it decides, and serves without it."""

from __future__ import annotations

import pytest

from reconciler.wire.gateway import LimitsStore
from reconciler.wire.keys import AccessKey, KeyLimits, SecretHash, hash_of
from tests.gateway.conftest import HELLO, Start
from tests.gateway.rank_double import story

from .redis import redis

SECRET = "sk-shared"
KEY = AccessKey(
    "webui", (SecretHash(hash_of(SECRET)),), limits=KeyLimits(requests_per_minute=100), metrics=True
)
BODY = {"model": "llama", "messages": HELLO}


@pytest.mark.needs("redis-server")
async def test_a_gateway_says_whether_the_store_decides_and_serves_without_it(start: Start) -> None:
    cluster = await start(story(2))
    with redis() as server:
        cluster.front = {"limits_store": LimitsStore(server.address, "test"), "nodes": ("b",)}
        cluster.route(*cluster.ranks, keys=(KEY,))
        cluster.http.headers["authorization"] = f"Bearer {SECRET}"
        said = {"gateways": 2, "store": server.address, "problem": ""}
        await cluster.until(lambda: cluster.state()["limits"] == {**said, "shared": True})
        _, headers, _ = await cluster.post(BODY)
        assert (headers["x-ratelimit-limit-requests"], headers["x-ratelimit-remaining-requests"]) == (
            "100",
            "99",
        )
        assert (await cluster.samples())["reconciler_limits_shared"] == 1
        server.kill()
        status, headers, _ = await cluster.post(BODY)
        assert status == 200
        assert (headers["x-ratelimit-limit-requests"], headers["x-ratelimit-remaining-requests"]) == (
            "50",
            "48",
        )
        await cluster.until(lambda: not cluster.state()["limits"]["shared"])
        assert cluster.state()["limits"]["problem"]
        samples = await cluster.samples()
        assert samples["reconciler_limits_shared"] == 0
        assert samples["reconciler_limits_by_share_total"] == 1
        assert samples["reconciler_limits_store_failures_total"] >= 1


async def test_several_gateways_without_a_store_say_that_each_has_its_share(start: Start) -> None:
    cluster = await start(story(2))
    assert cluster.state()["limits"] is None
    cluster.front = {"nodes": ("b", "c")}
    cluster.route(*cluster.ranks, keys=(KEY,))
    cluster.http.headers["authorization"] = f"Bearer {SECRET}"
    said = {"gateways": 3, "store": "", "shared": False, "problem": ""}
    await cluster.until(lambda: cluster.state()["limits"] == said)
    _, headers, _ = await cluster.post(BODY)
    assert headers["x-ratelimit-limit-requests"] == "33"
