"""Commands and streams over an SSH connection, from what the server sees of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from reconciler.remote.commands import Completed
from reconciler.remote.ssh import channels
from reconciler.remote.ssh.channels import OUTPUT_BYTES_MAX, TooLong, hold, open_stream, run
from tests.agent.bench import SOON_SECONDS, soon

from .server import USER, Channel, Server, client_key, server


@pytest.fixture
async def machine() -> AsyncIterator[Server]:
    async with server() as made:
        made.on_data = lambda channel, data: None
        yield made


@pytest.fixture
async def connection(machine: Server, tmp_path: Path) -> AsyncIterator[asyncssh.SSHClientConnection]:
    key = client_key(tmp_path / "key")
    async with asyncssh.connect(
        "127.0.0.1", machine.port, username=USER, client_keys=[str(key)], known_hosts=None, config=None
    ) as made:
        yield made


def ending(status: int | None = None, signal: str = "", out: bytes = b"", err: bytes = b"") -> Any:
    """A command that reads all of its input, says this, and ends."""

    def at_end(channel: Channel) -> bool:
        channel.say(out)
        channel.say(err, error=True)
        if signal:
            channel.chan.exit_with_signal(signal)
        elif status is not None:
            channel.chan.exit(status)
        else:
            channel.chan.close()
        return True

    return at_end


def at_end_of_input(machine: Server, end: Any) -> None:
    def begin(channel: Channel) -> None:
        channel.eof_received = lambda: end(channel)  # type: ignore[method-assign]
        channel.begin()

    machine.on_command = begin


@pytest.mark.parametrize(
    ("status", "signal", "expected"),
    [(0, "", 0), (7, "", 7), (None, "TERM", 143), (None, "KILL", 137), (None, "ODD", 255)],
)
async def test_a_command_reads_its_input_and_its_end_is_told_as_a_shell_does(
    machine: Server,
    connection: asyncssh.SSHClientConnection,
    status: int | None,
    signal: str,
    expected: int,
) -> None:
    at_end_of_input(machine, ending(status, signal, b"said \xff", b"warned"))
    async with asyncio.timeout(SOON_SECONDS):
        done = await run(connection, ("cat", "-"), b"given", SOON_SECONDS)
    assert done == Completed(expected, "said �", "warned")
    assert [(channel.script.splitlines()[-1], channel.input) for channel in machine.channels] == [
        ("exec /usr/bin/env LC_ALL=C cat -", b"given")
    ]


async def test_a_channel_that_closes_without_a_status_says_nothing_of_the_command(
    machine: Server, connection: asyncssh.SSHClientConnection
) -> None:
    at_end_of_input(machine, ending())
    with pytest.raises(TimeoutError, match="the connection has ended: without a status"):
        await run(connection, ("true",), b"", SOON_SECONDS)


async def test_a_command_that_ends_before_it_has_read_all_is_told_by_its_status(
    machine: Server, connection: asyncssh.SSHClientConnection
) -> None:

    def end(channel: Channel) -> None:
        channel.begin()
        channel.chan.exit(3)

    machine.on_command = end
    assert (await run(connection, ("false",), b"x" * 300_000, SOON_SECONDS)).status == 3


async def test_a_command_that_nobody_waits_for_is_killed_and_let_go_of(
    machine: Server, connection: asyncssh.SSHClientConnection
) -> None:
    running = asyncio.create_task(run(connection, ("sleep", "600"), b"given", 600.0))
    await soon(lambda: machine.channels and machine.channels[0].input)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (channel,) = machine.channels
    await asyncio.wait_for(channel.ended.wait(), SOON_SECONDS)
    assert channel.signals == ["KILL"]


@pytest.mark.parametrize("error", [False, True], ids=["output", "errors"])
async def test_a_command_that_prints_too_much_is_killed_and_let_go_of(
    machine: Server, connection: asyncssh.SSHClientConnection, error: bool
) -> None:
    def flood(channel: Channel) -> None:
        channel.begin()
        channel.say(b"y" * (OUTPUT_BYTES_MAX + 1), error)

    machine.on_command = flood
    with pytest.raises(TooLong, match="it printed more than 1048576 bytes"):
        await run(connection, ("yes",), b"", SOON_SECONDS)
    (channel,) = machine.channels
    await asyncio.wait_for(channel.ended.wait(), SOON_SECONDS)
    assert channel.signals == ["KILL"]


async def test_a_command_that_has_ended_is_not_killed_and_may_print_as_much_as_is_allowed(
    machine: Server, connection: asyncssh.SSHClientConnection
) -> None:
    at_end_of_input(machine, ending(0, out=b"y" * OUTPUT_BYTES_MAX, err=b"z" * OUTPUT_BYTES_MAX))
    done = await run(connection, ("yes",), b"", SOON_SECONDS)
    assert (len(done.out), len(done.err)) == (OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX)
    assert machine.channels[0].signals == []


async def test_a_channel_that_nobody_waits_for_is_closed_once_it_is_open(
    machine: Server, connection: asyncssh.SSHClientConnection
) -> None:
    opening = asyncio.create_task(run(connection, ("true",), b"", SOON_SECONDS))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await soon(lambda: machine.channels)
    await asyncio.wait_for(machine.channels[0].ended.wait(), SOON_SECONDS)
    failing: Any = asyncio.get_running_loop().create_future()
    failing.set_exception(OSError("not opened"))
    channels._abandon(failing)
    cancelled: Any = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    channels._abandon(cancelled)


async def test_a_command_that_lasts_has_begun_when_it_says_something(
    machine: Server, connection: asyncssh.SSHClientConnection
) -> None:
    held = await hold(connection, ("serve",))
    await soon(lambda: machine.channels)
    (channel,) = machine.channels
    channel.say(b"a warning", error=True)
    await asyncio.sleep(0.02)
    assert not held.begun.done()
    channel.say(b"serving")
    assert await asyncio.wait_for(held.begun, SOON_SECONDS) == Completed(0, "", "")
    for _ in range(3):
        channel.say(b"x" * OUTPUT_BYTES_MAX)
    channel.chan.write_eof()
    await asyncio.sleep(0.02)
    assert not held.ended.done(), "what it says later is not kept, and its end of output is not its end"
    channel.chan.exit(5)
    assert (await asyncio.wait_for(held.ended, SOON_SECONDS)).status == 5


async def test_a_command_that_ends_before_it_says_anything_has_begun_with_its_end(
    machine: Server, connection: asyncssh.SSHClientConnection
) -> None:
    def fail(channel: Channel) -> None:
        channel.begin()
        channel.say(b"no such file", error=True)
        channel.chan.exit(2)

    machine.on_command = fail
    held = await hold(connection, ("serve",))
    assert await asyncio.wait_for(held.begun, SOON_SECONDS) == Completed(2, "", "no such file")
    machine.on_command = lambda channel: channel.chan.close()
    lost = await hold(connection, ("serve",))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lost.begun, SOON_SECONDS)


async def test_a_stream_to_a_socket_carries_both_ends_of_file(
    machine: Server, connection: asyncssh.SSHClientConnection
) -> None:
    async def answer(reader: Any, writer: Any) -> None:
        asked = await reader.read()
        writer.write(b"asked " + asked)
        writer.write_eof()

    machine.sockets["/run/s.sock"] = answer
    reader, writer = await open_stream(connection, "/run/s.sock")
    async with asyncio.timeout(SOON_SECONDS):
        writer.write(b"who?")
        assert writer.can_write_eof()
        writer.write_eof()
        assert await reader.read() == b"asked who?"
    writer.close()
    await soon(lambda: writer.is_closing())
    writer.write(b"late")  # as with a socket, that raises nothing
    writer.write_eof()
    with pytest.raises(asyncssh.ChannelOpenError):
        await open_stream(connection, "/run/other.sock")


async def test_only_the_loss_of_the_connection_is_an_error_of_a_stream(
    machine: Server, connection: asyncssh.SSHClientConnection
) -> None:
    begun = asyncio.Event()

    async def wait(reader: Any, writer: Any) -> None:
        begun.set()
        with contextlib.suppress(OSError):
            await reader.read()

    machine.sockets["/run/s.sock"] = wait
    reader, writer = await open_stream(connection, "/run/s.sock")
    await asyncio.wait_for(begun.wait(), SOON_SECONDS)
    machine.connections[0].abort()
    with pytest.raises(TimeoutError, match="the connection was lost"):
        await asyncio.wait_for(reader.read(), SOON_SECONDS)
    writer.close()
