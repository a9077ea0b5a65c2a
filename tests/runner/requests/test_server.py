"""Rank 0's socket before a model's own code, which may do anything to a request that it reads."""

from __future__ import annotations

import asyncio
import socket as unix
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mlx_lm.utils import load

from reconciler.runner.decode.inbox import Inbox
from reconciler.runner.forms.matching import Forms
from reconciler.runner.model.adapter import Loaded, Tokenizer
from reconciler.runner.process.progress import ProgressPipe
from reconciler.runner.requests import server as server_module
from reconciler.runner.requests.server import Server
from reconciler.runner.requests.texts import TextReader
from reconciler.wire.frames import encode
from reconciler.wire.generation import Accepted, Failed, Generate
from reconciler.wire.question import Question, Texts
from reconciler.wire.sampling import Sampling, SamplingDefaults
from tests.runner.ranks import connected, question, short_directory

CONTEXT = 64


class Moody(Tokenizer):
    """Takes its time until it may go on, and cannot read one text at all."""

    may_go_on = threading.Event()
    asked: ClassVar[list[str]] = []

    def plain(self, text: str) -> list[int]:
        self.may_go_on.wait(30)
        self.asked.append(text)
        if text == "too complex":
            raise MemoryError(text)
        return super().plain(text)


@pytest.fixture
def socket(endless: Path) -> Iterator[str]:
    Moody.may_go_on, Moody.asked = threading.Event(), []
    loaded = Loaded(None, Moody(load(str(endless))[1]), 304, SamplingDefaults(temperature=0.6, top_k=20))
    with short_directory() as folder:
        path = str(folder / "s")
        server = Server(path, CONTEXT, loaded, Inbox(100, ProgressPipe(None)), Forms(loaded))
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


async def test_a_request_that_is_malformed_and_has_the_name_of_an_open_one_ends_the_connection(
    socket: str,
) -> None:
    """An answer to it would be taken for one to the open request."""
    async with connected(socket) as client:
        client.send(prompt("a", "hello"))
        client.writer.write(encode({"type": "generate", "request": "a", "messages": 7}))
        assert await client.next("a") is None


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "cancel", "request": 7},
        {"type": "cancel"},
        {"type": "nothing", "request": "b"},
        {"request": "b"},
        {"type": "generate", "request": 7},
        {"type": "generate"},
    ],
    ids=str,
)
async def test_what_is_malformed_and_no_request_with_a_name_ends_the_connection(
    frame: dict[str, Any], socket: str
) -> None:
    async with connected(socket) as client:
        client.writer.write(encode(frame))
        assert await client.next("b") is None


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


async def test_texts_for_vectors_have_the_same_bound_and_are_refused_before_they_are_read(
    endless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "UNREAD_BYTES_MAX", 25)
    Moody.may_go_on, Moody.asked = threading.Event(), []
    loaded = Loaded(None, Moody(load(str(endless))[1]), 304, SamplingDefaults())
    Moody.may_go_on.set()
    reader = TextReader(loaded.tokenizer, 304, CONTEXT, 8, None)
    Moody.may_go_on.clear()
    Moody.asked.clear()

    def texts(name: str, *given: str) -> Generate:
        return Generate(name, (), tokens_max=0, question=Question("input", texts=Texts(texts=given)))

    with short_directory() as folder:
        path = str(folder / "s")
        server = Server(path, CONTEXT, loaded, Inbox(100, ProgressPipe(None)), Forms(loaded), reader)
        server.start()
        try:
            async with connected(path) as client:
                client.send(texts("none"))
                none = await client.next("none")
                assert isinstance(none, Failed)
                assert none.text == "there are 0 texts, expected 1 to 4096"
                for name in "abc":
                    client.send(texts(name, "five.", "bytes"))
                failed = await client.next("c")
                assert isinstance(failed, Failed)
                assert failed.code == "overloaded"
                Moody.may_go_on.set()
                assert isinstance(await client.next("a"), Accepted)
        finally:
            Moody.may_go_on.set()
            server.stop()


async def test_a_short_text_waits_for_one_long_one_and_not_for_all(
    socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent asks with one whether rank 0 takes requests, and a group whose rank 0 does not is formed again."""
    monkeypatch.setattr(server_module, "SHORT_BYTES_MAX", 5)
    async with connected(socket) as client:
        for name in "abc":
            client.send(prompt(name, f"long text {name}"))
        client.send(prompt("short", "hi"))
        for name in "xy":  # is answered at once: by then all others have been read
            client.writer.write(encode({"type": "generate", "request": name, "messages": 7}))
            assert isinstance(await client.next(name), Failed)
        Moody.may_go_on.set()
        for name in ("a", "b", "c", "short"):
            assert isinstance(await client.next(name), Accepted)
    assert Moody.asked == ["long text a", "hi", "long text b", "long text c"]


async def test_what_a_request_leaves_open_is_the_models_and_told(socket: str) -> None:
    Moody.may_go_on.set()
    asked = replace(
        prompt("a", "hello"), sampling=Sampling(top_p=0.5, seed=7), unset=("temperature", "min_p")
    )
    async with connected(socket) as client:
        client.send(asked)
        accepted = await client.next("a")
        client.send(prompt("b", "hello"))
        decided = await client.next("b")
    assert isinstance(accepted, Accepted)
    assert accepted.sampling == Sampling(temperature=0.6, top_p=0.5, seed=7)
    assert isinstance(decided, Accepted)
    assert decided.sampling is None, "nothing was open"


def test_nobody_can_connect_to_the_socket_before_it_is_its_owner_s_alone(
    endless_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[bool] = []

    def narrowed(path: str, mode: int) -> None:
        with unix.socket(unix.AF_UNIX) as early, pytest.raises(ConnectionRefusedError):
            early.connect(path)
        refused.append(mode == 0o600)

    monkeypatch.setattr("os.chmod", narrowed)
    loaded = Loaded(None, endless_tokenizer, 304)
    with short_directory() as folder:
        server = Server(str(folder / "s"), CONTEXT, loaded, Inbox(100, ProgressPipe(None)), Forms(loaded))
        server.start()
        server.stop()
    assert refused == [True]


def test_a_server_that_is_stopped_before_it_accepts_leaves_nothing_open(
    endless_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = asyncio.start_unix_server
    made: list[asyncio.Server] = []

    async def later(*args: Any, **options: Any) -> asyncio.Server:
        await asyncio.sleep(0.05)
        made.append(await start(*args, **options))
        return made[0]

    monkeypatch.setattr(asyncio, "start_unix_server", later)
    loaded = Loaded(None, endless_tokenizer, 304)
    with short_directory() as folder:
        server = Server(str(folder / "s"), CONTEXT, loaded, Inbox(100, ProgressPipe(None)), Forms(loaded))
        server.start()
        server.stop()
        assert not (folder / "s").exists()
    assert server._loop.is_closed()
    assert [each.is_serving() for each in made] == [False]


class Outlet:
    """One connection's outgoing bytes and its writer, which note what is done with them."""

    def __init__(self, stuck: str) -> None:
        self.told: list[str] = []
        self._stuck = stuck

    async def drained(self) -> None:
        await self._reach("drained")

    def close(self) -> None:
        self.told.append("closed")

    async def wait_closed(self) -> None:
        await self._reach("gone")

    async def _reach(self, name: str) -> None:
        if name == self._stuck:
            await asyncio.Event().wait()
        self.told.append(name)


@pytest.mark.parametrize(
    ("stuck", "told"),
    [
        ("", ["drained", "closed", "closed", "gone"]),
        ("drained", []),
        ("gone", ["drained", "closed", "closed"]),
    ],
)
async def test_a_connection_is_closed_once_its_reader_has_the_rest_and_not_waited_for_endlessly(
    monkeypatch: pytest.MonkeyPatch, stuck: str, told: list[str]
) -> None:
    if stuck:
        monkeypatch.setattr(server_module, "FLUSH_SECONDS", 0.0)
    outlet: Any = Outlet(stuck)
    await server_module._Connection(asyncio.get_running_loop(), outlet, outlet).flush()
    assert outlet.told == told
