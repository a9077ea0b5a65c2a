"""Rank 0's socket before a model's own code, which may do anything to a request that it reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlx_lm.utils import load

from reconciler.runner.decode.inbox import Inbox
from reconciler.runner.model.adapter import Loaded, Tokenizer
from reconciler.runner.process.progress import ProgressPipe
from reconciler.runner.requests import server as server_module
from reconciler.runner.requests.server import Server
from reconciler.wire.generation import Accepted, Failed, Generate
from tests.runner.ranks import connected, question, short_directory

CONTEXT = 64


class Moody(Tokenizer):
    """Takes its time until it may go on, and cannot read one text at all."""

    may_go_on = threading.Event()

    def plain(self, text: str) -> list[int]:
        self.may_go_on.wait(30)
        if text == "too complex":
            raise MemoryError(text)
        return super().plain(text)


@pytest.fixture
def socket(endless: Path) -> Iterator[str]:
    Moody.may_go_on = threading.Event()
    loaded = Loaded(None, Moody(load(str(endless))[1]), 304)
    with short_directory() as folder:
        path = str(folder / "s")
        server = Server(path, CONTEXT, loaded, Inbox(100, ProgressPipe(None)))
        server.start()
        yield path
        Moody.may_go_on.set()
        server.stop()


def prompt(name: str, text: str) -> Generate:
    return question(name, "", messages=(), prompt=text)


async def test_a_request_that_cannot_even_be_read_fails_alone_and_is_not_tried_elsewhere(
    socket: str, caplog: pytest.LogCaptureFixture
) -> None:
    Moody.may_go_on.set()
    async with connected(socket) as client:
        client.send(prompt("bad", "too complex"))
        client.send(prompt("good", "hello"))
        failed = await client.next("bad")
        assert isinstance(await client.next("good"), Accepted)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.text) == ("invalid_request", "it cannot be read: MemoryError: too complex")
    assert "Traceback" in caplog.text


async def test_texts_that_wait_to_be_tokenized_have_a_bound_together(
    socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "UNREAD_BYTES_MAX", 25)
    async with connected(socket) as client:
        for name in "abc":
            client.send(prompt(name, "ten bytes!"))
        failed = await client.next("c")
        assert isinstance(failed, Failed)
        assert failed.code == "overloaded"
        Moody.may_go_on.set()
        assert isinstance(await client.next("a"), Accepted)
        assert isinstance(await client.next("b"), Accepted)
        client.send(prompt("d", "ten bytes!"))
        assert isinstance(await client.next("d"), Accepted)
