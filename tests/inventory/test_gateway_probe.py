"""The gateway's readiness is what it answers at its own address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from reconciler.inventory import GatewayProbe, gateway_probe
from reconciler.state import GatewayAnswer, GatewayObservation
from tests.agent.bench import until


@asynccontextmanager
async def server(answer: bytes | None) -> AsyncIterator[str]:
    """An endpoint that answers everything with the same bytes; with None it does not answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()

    asked: list[bytes] = []
    made = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = made.sockets[0].getsockname()[1]
    async with made:
        yield f"http://127.0.0.1:{port}/v1"
    assert all(b"GET /ready HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n" % port in each for each in asked)


def http(status: int, body: str) -> bytes:
    return f"HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("answer", "door"),
    [
        (http(200, '{"status": "ready", "models": {"llama": 1}}'), GatewayAnswer(True)),
        (
            http(503, '{"status": "no group is connected", "models": {"qwen": 0, "llama": 0}}'),
            GatewayAnswer(False, ("llama", "qwen")),
        ),
        (http(503, '{"status": "no group is connected", "models": {}}'), GatewayAnswer(False)),
        (
            http(503, '{"status": "stopping", "models": {"llama": 1}}'),
            GatewayAnswer(False, (), "it is being stopped"),
        ),
        (
            http(503, '{"error": {"code": "too_many_connections"}}'),
            GatewayAnswer(False, (), "it refuses connections: it has as many as it may have"),
        ),
        (http(200, "hello"), GatewayAnswer(False, (), "what answers there is no gateway")),
        (http(404, "{}"), GatewayAnswer(False, (), "what answers there is no gateway")),
        (b"SSH-2.0-OpenSSH_9.9\r\n", GatewayAnswer(False, (), "what answers there is no gateway")),
        (b"", GatewayAnswer(False, (), "no answer: it closed the connection")),
    ],
)
async def test_each_answer_means_something(answer: bytes, door: GatewayAnswer) -> None:
    async with server(answer) as endpoint:
        assert await gateway_probe.ask(endpoint) == door


async def test_no_answer_in_time_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_probe, "ANSWER_SECONDS", 0.05)
    async with server(None) as endpoint:
        assert await gateway_probe.ask(endpoint) == GatewayAnswer(False, (), "no answer within 0.05 s")
    assert "no answer: " in (await gateway_probe.ask(endpoint)).problem


async def test_an_answer_belongs_to_the_gateway_that_gave_it() -> None:
    async with server(http(200, "{}")) as endpoint:
        seen: list[GatewayObservation | None] = [None]
        probe = GatewayProbe(lambda: seen[0])
        asking = asyncio.create_task(probe.run())
        await asyncio.sleep(0)
        assert probe() is None
        for pid in (7, 8):
            seen[0] = GatewayObservation(pid, endpoint)
            assert probe() == GatewayObservation(pid, endpoint)
            for _ in range(2000):
                now = probe()
                if now is not None and now.door is not None:
                    break
                await asyncio.sleep(0.001)
            assert now == GatewayObservation(pid, endpoint, door=GatewayAnswer(True))
        seen[0] = GatewayObservation(8, None, "taken")
        assert probe() == GatewayObservation(8, None, "taken")
        asking.cancel()


async def test_a_gateway_that_is_not_ready_is_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a group sees that the gateway is connected to it."""
    monkeypatch.setattr(gateway_probe, "AGAIN_SECONDS", 3600.0)
    monkeypatch.setattr(gateway_probe, "UNREADY_SECONDS", 0.01)
    doors = [GatewayAnswer(False, ("llama",)), GatewayAnswer(False, problem="no answer"), GatewayAnswer(True)]
    left = iter(doors)

    async def ask(endpoint: str) -> GatewayAnswer:
        return next(left)

    monkeypatch.setattr(gateway_probe, "ask", ask)
    seen = GatewayObservation(7, "http://127.0.0.1:8400/v1")
    probe = GatewayProbe(lambda: seen)
    await probe.look()
    asking = asyncio.create_task(probe.run())
    await until(lambda: probe() == replace(seen, door=GatewayAnswer(True)))
    asking.cancel()
