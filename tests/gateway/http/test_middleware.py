"""What every request passes, and the answers to requests that come to no endpoint."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from starlette.types import Message, Scope

from reconciler.gateway.app import build_app
from reconciler.gateway.records.logs import Logs
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.reach import Reach
from reconciler.gateway.routing.routes import RoutesFile
from reconciler.gateway.routing.timeouts import Timing
from reconciler.serving.exchange import SCOPE_KEY
from tests.gateway.conftest import HELLO, SOURCES, Start
from tests.gateway.rank_double import story
from tests.machine_names import CONTAINER_NAMES


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
    app = build_app(pool, replace(SOURCES, new_seed=broken), Logs(tmp_path, time.time), print)
    scope: Scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
    scope["state"] = {SCOPE_KEY: SimpleNamespace(arrived=True, objection=None)}
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


async def test_a_name_that_somebody_else_may_point_here_is_refused_whatever_the_method(start: Start) -> None:
    cluster = await start(story(1))
    for host in (
        "evil.example",
        "127.0.0.1.evil.example:8400",
        "10.0.0.1.nip.io:8400",
        "localhost.evil.example",
        "host.docker.internal.evil.example",
        "evil.internal",
        "evil.host.internal",
        "evil.local",
        "",
        "[",
    ):
        for method, path in (("GET", "/v1/models"), ("HEAD", "/health"), ("POST", "/v1/chat/completions")):
            async with cluster.http.request(method, cluster.url(path), headers={"host": host}) as answer:
                assert answer.status == 403, (host, method)
                if method != "HEAD":
                    assert (await answer.json())["error"]["code"] == "foreign_host"


async def test_names_of_this_machine_and_those_of_the_manifest_are_served(start: Start) -> None:
    cluster = await start(story(1), timing=Timing(shutdown=0.5, hello=60.0, routes_idle=0.02))
    name = socket.gethostname()
    machine = (
        name,
        f"{name.upper()}:8400",
        f"{name.partition('.')[0]}.local",
        f"{name.partition('.')[0]}.LOCAL.:80",
    )
    own = (
        "localhost",
        "LOCALHOST:8400",
        "localhost.",
        "app.localhost:80",
        "[::1]:8400",
        "127.8.9.1",
        "10.0.2.2:8400",
        "[fd00::2]:8400",
        *machine,
    )
    await cluster.routed(cluster.ranks[0], hosts=("ai.example.com",))
    for host in (
        *own,
        *CONTAINER_NAMES,
        "HOST.Docker.Internal.:8400",
        "ai.example.com",
        "AI.example.com:443",
    ):
        async with cluster.http.get(cluster.url("/v1/models"), headers={"host": host}) as answer:
            assert answer.status == 200, host
    body = {"model": "llama", "messages": HELLO}
    assert (await cluster.post(body, origin="https://ai.example.com"))[0] == 200
    assert (await cluster.post(body, origin="https://ai.example.com.evil.example"))[0] == 403


async def test_a_client_of_http_1_0_names_no_host(start: Start) -> None:
    cluster = await start(story(1))
    reader, writer = await asyncio.open_connection(*cluster.address)
    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(20):
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_the_clients_request_id_is_kept_where_it_is_sensible(start: Start) -> None:
    cluster = await start(story(1))
    body = {"model": "llama", "messages": HELLO}
    assert (await cluster.post(body, **{"x-request-id": "mine-1"}))[1]["x-request-id"] == "mine-1"
    assert (await cluster.post(body, **{"x-request-id": "a b"}))[1]["x-request-id"].startswith("req_")
    assert (await cluster.post(body))[1]["x-request-id"].startswith("req_")
