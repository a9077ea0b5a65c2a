"""Requests and answers over a Unix socket, between a client and a server of the product."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import (
    Conflict,
    Invalid,
    InvalidManifests,
    Problem,
    Refused,
    Silent,
    Unreachable,
    Unwritable,
)
from reconciler.remote.rpc import RpcClient, RpcServer
from reconciler.wire import SPOKEN, frames
from reconciler.wire.admin import (
    CLI_RECEIVES,
    CONTROLLER_RECEIVES_FROM_CLI,
    Answer,
    Get,
    ListEvents,
    ShowStatus,
)
from reconciler.wire.codec import Hello, to_wire
from tests.agent.bench import until

SECONDS = 60.0
Dispatch = Callable[[Any], Awaitable[Any]]


@asynccontextmanager
async def serving(dispatch: Dispatch) -> AsyncIterator[str]:
    """A server with one dispatch on a socket."""
    with tempfile.TemporaryDirectory(prefix="r-") as directory:
        path = Path(directory) / "s"
        server = RpcServer(path, CONTROLLER_RECEIVES_FROM_CLI, dispatch)
        await server.start()
        yield str(path)
        await server.close()
        assert not path.exists()


@asynccontextmanager
async def pretending(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """Something else behind the socket, for one connection."""
    ended = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await talk(reader, writer)
        writer.close()
        await writer.wait_closed()
        ended.set()

    with tempfile.TemporaryDirectory(prefix="r-") as directory:
        path = str(Path(directory) / "s")
        server = await asyncio.start_unix_server(connected, path)
        yield path
        server.close()
        await ended.wait()


@asynccontextmanager
async def client(path: str) -> AsyncIterator[RpcClient]:
    made = await RpcClient(*await asyncio.open_unix_connection(path), CLI_RECEIVES).open("cli")
    yield made
    await made.close()


async def echo(message: Any) -> Answer:
    return Answer({"asked": to_wire(message)})


async def test_a_request_is_answered() -> None:
    async with serving(echo) as path, client(path) as requester:
        answer = await requester.request(Get("Node", "studio-1"), timeout=SECONDS)

    assert answer == Answer({"asked": to_wire(Get("Node", "studio-1"))})


async def test_a_long_wait_holds_up_no_other_request() -> None:
    news = asyncio.Event()

    async def dispatch(message: Any) -> Answer:
        if isinstance(message, ListEvents):
            await news.wait()
        return Answer(type(message).__name__)

    async with serving(dispatch) as path, client(path) as requester:
        waiting = asyncio.create_task(requester.request(ListEvents(wait_seconds=30), timeout=SECONDS))
        first = await requester.request(ShowStatus(), timeout=SECONDS)
        assert not waiting.done()
        news.set()

        assert (first, await waiting) == (Answer("ShowStatus"), Answer("ListEvents"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("Fenced", "no"), "Fenced"),
        (Invalid("no"), "Invalid"),
        (InvalidManifests((Problem("a.yaml", 3, 5, "spec", "no"),)), "Invalid"),
        (Conflict("no"), "Conflict"),
        (Unwritable("no"), "Unwritable"),
    ],
)
async def test_an_error_of_the_other_side_arrives_as_refused(error: Exception, code: str) -> None:
    async def dispatch(message: Any) -> Answer:
        raise error

    async with serving(dispatch) as path, client(path) as requester:
        with pytest.raises(Refused, match=r"no$") as refused:
            await requester.request(ShowStatus(), timeout=SECONDS)

    assert (refused.value.code, str(refused.value)) == (code, str(error))


async def test_an_answer_that_is_too_long_is_refused_and_the_connection_goes_on() -> None:
    async def dispatch(message: Any) -> Answer:
        return Answer("x" * frames.FRAME_BYTES_MAX if isinstance(message, Get) else "short")

    async with serving(dispatch) as path, client(path) as requester:
        with pytest.raises(Refused, match="the most is"):
            await requester.request(Get(), timeout=SECONDS)
        assert await requester.request(ShowStatus(), timeout=SECONDS) == Answer("short")


async def test_no_answer_in_time_is_unreachable_and_a_late_one_is_dropped() -> None:
    release = asyncio.Event()

    async def dispatch(message: Any) -> Answer:
        if isinstance(message, Get):
            await release.wait()
        return Answer(type(message).__name__)

    async with serving(dispatch) as path, client(path) as requester:
        with pytest.raises(Silent, match=r"no answer to get within 0\.01 s"):
            await requester.request(Get(), timeout=0.01)
        release.set()
        assert await requester.request(ShowStatus(), timeout=SECONDS) == Answer("ShowStatus")


async def test_who_was_silent_when_the_connection_ended_is_not_said_to_be_down() -> None:
    async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.encode(to_wire(Hello("controller", SPOKEN))))
        while await frames.read(reader):
            pass

    async with pretending(read_nothing) as path, client(path) as requester:
        with pytest.raises(Silent):
            await requester.request(ShowStatus(), timeout=0.01)
        await requester.close()
        with pytest.raises(Silent, match="closed by this side"):
            await requester.request(ShowStatus(), timeout=SECONDS)


async def test_only_the_request_with_its_number_is_answered_and_what_answers_none_is_a_push() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.encode(to_wire(Hello("controller", SPOKEN))))
        await frames.read(reader)
        asked = [await frames.read(reader) for _ in range(2)]
        first, second = (frame["call"] for frame in asked if frame is not None)
        answer = to_wire(Answer("second"))
        for frame in (
            {**answer, "reply": second + 100},
            {**answer, "reply": "x"},
            to_wire(Answer("pushed")),
            {"type": "no such thing"},
            {**answer, "reply": second},
            {**answer, "reply": second},
            {"type": "answer", "reply": first},
        ):
            writer.write(frames.encode(frame))
        await frames.read(reader)

    pushed: list[Any] = []
    async with pretending(talk) as path, client(path) as requester:
        requester.pushed = pushed.append  # type: ignore[method-assign, assignment]
        first = asyncio.create_task(requester.request(Get(), timeout=SECONDS))
        await asyncio.sleep(0)
        assert await requester.request(ShowStatus(), timeout=SECONDS) == Answer("second")
        with pytest.raises(Unreachable, match="invalid answer: ") as caught:
            await first
        assert not isinstance(caught.value, Silent)
        assert pushed == [Answer("pushed")]
        assert requester._waiting == {}
        assert not requester.closed.is_set()


async def test_no_greeting_in_time_is_silence() -> None:
    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with pretending(nothing) as path:
        requester = RpcClient(*await asyncio.open_unix_connection(path), {})
        with pytest.raises(Silent, match=r"no greeting within 0\.01 s"):
            await requester.open("controller", seconds=0.01)


async def test_the_end_of_a_connection_ends_what_waits_on_it() -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.encode(to_wire(Hello("controller", SPOKEN))))
        await frames.read(reader)
        await frames.read(reader)

    async with pretending(close) as path, client(path) as requester:
        for _ in range(2):
            with pytest.raises(Unreachable, match="the other side closed the connection"):
                await requester.request(ShowStatus(), timeout=SECONDS)
        assert requester.closed.is_set()


async def test_a_client_that_leaves_ends_the_work_that_was_done_for_it() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def dispatch(message: Any) -> Answer:
        begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Answer(None)

    async with serving(dispatch) as path:
        async with client(path) as requester:
            waiting = asyncio.create_task(requester.request(ShowStatus(), timeout=SECONDS))
            async with asyncio.timeout(SECONDS):
                await begun.wait()
        with pytest.raises(Unreachable, match="closed by this side"):
            await waiting
        async with asyncio.timeout(SECONDS):
            await cancelled.wait()


async def test_a_fault_of_the_server_ends_the_connection_and_is_not_hidden() -> None:
    async def dispatch(message: Any) -> Answer:
        if isinstance(message, ShowStatus):
            raise KeyError("a fault")
        return Answer("fine")

    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    async with serving(dispatch) as path:
        async with client(path) as requester:
            with pytest.raises(Unreachable):
                await requester.request(ShowStatus(), timeout=SECONDS)
        async with client(path) as requester:
            assert await requester.request(Get(), timeout=SECONDS) == Answer("fine")

    assert [type(error) for fault in faults for error in fault.exceptions] == [KeyError]


async def test_a_server_that_could_start_no_process_answers_nobody() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with serving(echo) as path:
        lowest = os.dup(2)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 4, limits[1]))
        try:
            with pytest.raises(Unreachable):
                async with client(path):
                    pass
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        async with client(path) as requester:
            assert await requester.request(Get(), timeout=SECONDS)


async def test_a_socket_is_for_its_owner_and_replaces_that_of_a_dead_server() -> None:
    with tempfile.TemporaryDirectory(prefix="r-") as directory:
        path = Path(directory) / "s"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        server = RpcServer(path, CONTROLLER_RECEIVES_FROM_CLI, echo)
        await server.start()

        async with client(str(path)) as requester:
            await requester.request(ShowStatus(), timeout=SECONDS)
        assert path.stat().st_mode & 0o777 == 0o600
        await server.close()


async def test_a_socket_that_was_removed_comes_back_and_connections_go_on() -> None:
    with tempfile.TemporaryDirectory(prefix="r-") as directory:
        path = Path(directory) / "s"
        server = RpcServer(path, CONTROLLER_RECEIVES_FROM_CLI, echo, look_seconds=0.01)
        await server.start()
        async with client(str(path)) as before:
            path.unlink()
            await until(lambda: path.exists() and path.stat().st_mode & 0o777 == 0o600)
            async with client(str(path)) as after:
                assert await after.request(Get(), timeout=SECONDS)
                assert await before.request(Get(), timeout=SECONDS)
        await server.close()
        await asyncio.sleep(0.1)
        assert not path.exists(), "it looks no more"


async def test_a_server_that_never_listened_can_be_closed() -> None:
    with tempfile.TemporaryDirectory(prefix="r-") as directory:
        await RpcServer(Path(directory) / "s", CONTROLLER_RECEIVES_FROM_CLI, echo).close()


async def test_a_socket_of_another_process_in_its_place_is_left_alone() -> None:
    with tempfile.TemporaryDirectory(prefix="r-") as directory, socket.socket(socket.AF_UNIX) as other:
        path = Path(directory) / "s"
        server = RpcServer(path, CONTROLLER_RECEIVES_FROM_CLI, echo, look_seconds=0.01)
        await server.start()
        path.unlink()
        other.bind(str(path))
        theirs = path.stat().st_ino
        await asyncio.sleep(0.1)
        assert path.stat().st_ino == theirs
        await server.close()
        assert path.stat().st_ino == theirs


async def test_a_server_that_closes_ends_the_waits_of_its_clients() -> None:
    begun = asyncio.Event()

    async def dispatch(message: Any) -> Answer:
        begun.set()
        await asyncio.sleep(600)
        return Answer(None)

    with tempfile.TemporaryDirectory(prefix="r-") as directory:
        server = RpcServer(Path(directory) / "s", CONTROLLER_RECEIVES_FROM_CLI, dispatch)
        await server.start()
        async with client(str(Path(directory) / "s")) as requester:
            waiting = asyncio.create_task(requester.request(ShowStatus(), timeout=SECONDS))
            async with asyncio.timeout(SECONDS):
                await begun.wait()
            await server.close()
            with pytest.raises(Unreachable, match="the other side closed the connection"):
                await waiting


@pytest.mark.parametrize("greeting", [b"", b"\xff\xff\xff\xff", frames.encode({"type": "hello"})])
async def test_without_a_greeting_there_is_no_connection(greeting: bytes) -> None:
    async with serving(echo) as path:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(greeting)
        writer.write_eof()
        async with asyncio.timeout(SECONDS):
            assert await reader.read() == frames.encode(to_wire(Hello("controller", SPOKEN)))
        writer.close()


async def test_a_server_of_another_version_is_unreachable() -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.encode(to_wire(Hello("controller", (99,)))))
        await reader.read()

    async with pretending(other) as path:
        streams = await asyncio.open_unix_connection(path)
        with pytest.raises(Unreachable, match="no common protocol version"):
            await RpcClient(*streams, CLI_RECEIVES).open("cli")


async def test_a_malformed_request_is_refused_with_what_was_expected() -> None:
    async with serving(echo) as path:
        reader, writer = await asyncio.open_unix_connection(path)
        for frame in (to_wire(Hello("cli", SPOKEN)), {"type": "get", "kind": 3, "call": 1}):
            writer.write(frames.encode(frame))
        await frames.read(reader)
        answer = await frames.read(reader)
        writer.close()

    assert answer == {
        "type": "refused",
        "reply": 1,
        "code": "Malformed",
        "text": "Get.kind: expected str, got 3",
    }
