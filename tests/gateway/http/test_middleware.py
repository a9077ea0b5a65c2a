"""What every request passes, and the answers to requests that come to no endpoint."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from starlette.types import Message

from reconciler.gateway.app import build_app
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.reach import Reach
from reconciler.gateway.routing.routes import RoutesFile
from reconciler.gateway.routing.timeouts import Timing
from tests.gateway.conftest import HELLO, SOURCES, Start
from tests.gateway.rank_double import story


async def test_errors_outside_the_endpoints_have_the_same_shape(start: Start) -> None:
    cluster = await start(story(1))
    for method, path, status in [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/chat/completions/", 404),
    ]:
        async with cluster.http.request(method, cluster.url(path)) as answer:
            assert answer.status == status
            assert set((await answer.json())["error"]) == {"message", "type", "param", "code"}
            assert answer.headers["x-request-id"]


async def test_a_defect_of_the_gateway_is_told_in_the_same_shape_and_goes_to_the_log(tmp_path: Path) -> None:
    def broken() -> int:
        raise ZeroDivisionError

    async def receive() -> Message:
        return {"type": "http.request", "body": orjson.dumps({"model": "llama", "messages": HELLO})}

    async def send(message: Message) -> None:
        sent.append(message)

    sent: list[Message] = []
    pool = Pool(RoutesFile(tmp_path / "routes.json"), Timing(), Reach(tmp_path / "key").connect, time.time)
    app = build_app(pool, replace(SOURCES, new_seed=broken))
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
    with pytest.raises(ZeroDivisionError):
        await app(scope, receive, send)
    start, *parts = sent
    assert start["status"] == 500
    assert dict(start["headers"])[b"x-request-id"]
    error = orjson.loads(b"".join(part["body"] for part in parts))["error"]
    assert (error["code"], error["param"]) == ("internal_error", None)


async def test_a_page_of_another_site_is_refused_and_one_of_this_machine_is_not(start: Start) -> None:
    cluster = await start(story(1), story(1))
    body = {"model": "llama", "messages": HELLO}
    for origin in ("https://evil.example", "http://127.0.0.1.evil.example:8400", "null", "http://["):
        status, _, refusal = await cluster.post(body, origin=origin)
        assert (status, refusal["error"]["code"]) == (403, "foreign_origin")
    for origin in ("http://localhost:3000", "http://127.0.0.1:8400", "http://[::1]:5173"):
        assert (await cluster.post(body, origin=origin))[0] == 200


async def test_the_clients_request_id_is_kept_where_it_is_sensible(start: Start) -> None:
    cluster = await start(story(1))
    body = {"model": "llama", "messages": HELLO}
    assert (await cluster.post(body, **{"x-request-id": "mine-1"}))[1]["x-request-id"] == "mine-1"
    assert (await cluster.post(body, **{"x-request-id": "a b"}))[1]["x-request-id"].startswith("req_")
    assert (await cluster.post(body))[1]["x-request-id"].startswith("req_")
