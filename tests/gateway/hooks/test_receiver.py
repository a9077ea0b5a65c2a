"""The path of webhooks at a real gateway, with a controller's socket that keeps what it is told."""

from __future__ import annotations

import asyncio
import io
import time
from pathlib import Path
from typing import Any

import pytest

from reconciler.gateway.hooks import receiver
from reconciler.remote.rpc import RpcServer
from reconciler.wire.admin import CONTROLLER_RECEIVES_FROM_CLI, Answer, Look
from reconciler.wire.gateway import HookSecret
from tests.gateway.conftest import Cluster, Start
from tests.gateway.rank_double import eventually

from .test_signature import signed

SECRET = "a secret that only two know"


class Listener:
    """The controller, as far as it is told of webhooks."""

    def __init__(self) -> None:
        self.looks: list[Look] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def answer(self, message: Any) -> Answer:
        self.looks.append(message)
        await self.answers.wait()
        return Answer({})


@pytest.fixture
async def hooked(start: Start) -> Cluster:
    cluster = await start()
    (cluster.home / "secret").write_text(SECRET + "\n")
    cluster.front["hook"] = HookSecret(file=str(cluster.home / "secret"))
    await cluster.routed()
    return cluster


async def sent(cluster: Cluster, body: bytes, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with cluster.http.post(cluster.url("/hooks/git"), data=io.BytesIO(body), headers=named) as answer:
        await answer.read()
        return answer.status


async def listening(home: Path, listener: Listener) -> RpcServer:
    server = RpcServer(home / "controller.sock", CONTROLLER_RECEIVES_FROM_CLI, listener.answer)
    await server.start()
    return server


async def test_a_signed_message_is_answered_before_any_work_and_the_controller_looks(hooked: Cluster) -> None:
    listener = Listener()
    listener.answers.clear()
    server = await listening(hooked.home, listener)
    try:
        for number in range(5):
            body = b'{"after": "%d"}' % number
            assert await sent(hooked, body, X_Hub_Signature_256="sha256=" + signed(body, SECRET)) == 202
        await eventually(lambda: bool(listener.looks))
        listener.answers.set()
        await eventually(lambda: len(listener.looks) == 2)
        await asyncio.sleep(0.05)
        assert len(listener.looks) == 2, "what comes while the controller is told is one more"
        assert listener.looks[0].name == "remote"
        assert abs((listener.looks[0].at or 0) - time.time()) < 10
    finally:
        await server.close()


async def test_a_message_that_comes_again_is_accepted_and_has_the_controller_look_in_bounded_number(
    hooked: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some senders always send the same. The last of many is looked at too: something may have come with it."""
    monkeypatch.setattr(receiver, "AGAIN_SECONDS", 1.0)
    listener = Listener()
    server = await listening(hooked.home, listener)
    try:
        body = b'{"after": "1"}'
        signature = "sha256=" + signed(body, SECRET)

        async def send(number: int) -> int:
            return await sent(hooked, body, X_Hub_Signature_256=signature, X_GitHub_Delivery=f"id-{number}")

        assert await send(0) == 202
        await eventually(lambda: len(listener.looks) == 1)
        began = time.monotonic()
        assert [await send(number) for number in range(1, 200)] == [202] * 199
        last = time.time()
        await eventually(lambda: len(listener.looks) >= 2)
        await eventually(lambda: (listener.looks[-1].at or 0) >= last)
        assert len(listener.looks) <= 3 + (time.monotonic() - began) / 1.0
    finally:
        await server.close()


async def test_a_message_is_accepted_while_the_controller_is_away(hooked: Cluster) -> None:
    assert await sent(hooked, b'{"after": "2"}', X_Gitlab_Token=SECRET) == 202, "it looks by itself"


async def test_who_does_not_know_the_secret_is_refused(hooked: Cluster) -> None:
    assert await sent(hooked, b"{}") == 401
    assert await sent(hooked, b"{}", X_Hub_Signature_256="sha256=" + signed(b"{} ", SECRET)) == 401
    assert await sent(hooked, b"{}", X_Gitlab_Token="") == 401


async def test_a_large_message_is_refused_before_it_is_read(hooked: Cluster) -> None:
    assert await sent(hooked, b"x" * (1024 * 1024 + 1), X_Gitlab_Token=SECRET) == 413


async def test_without_a_secret_there_is_no_such_path(hooked: Cluster) -> None:
    (hooked.home / "secret").write_text("short")
    assert await sent(hooked, b"{}", X_Gitlab_Token="short") == 404
    (hooked.home / "secret").unlink()
    assert await sent(hooked, b"{}", X_Gitlab_Token="") == 404
    hooked.front.clear()
    hooked.route()
    await hooked.until(hooked.up)
    assert await sent(hooked, b"{}", X_Gitlab_Token=SECRET) == 404
