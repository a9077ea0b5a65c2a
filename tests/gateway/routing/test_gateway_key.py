"""What a machine lets the gateway's key do: through a real SSH server, as anybody who got hold of the key could."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.frames import encode
from tests.gateway.conftest import let_in
from tests.gateway.rank_double import RankDouble, eventually, stands_still, story
from tests.sshd import Sshd

pytestmark = pytest.mark.processes

RANK = "r-000000000000.sock"
IN_FLIGHT_BYTES_MAX = 16 * 1024 * 1024
"""Windows of SSH and buffers of sockets and pipes, all together: on Linux about 5 MiB."""


@pytest.fixture
async def key_of_gateway(machine: Sshd, home: Path) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """A connection as anybody has it who got hold of the gateway's key. The ranks are in ``home``."""
    let_in(machine, home)
    async with asyncssh.connect(
        "127.0.0.1", machine.port, client_keys=[str(home / "keys" / "gateway")],
        known_hosts=None, config=None, agent_path=None,
    ) as connection:  # fmt: skip
        yield connection


@pytest.fixture
async def rank(home: Path) -> AsyncIterator[RankDouble]:
    double = await RankDouble(home / RANK, story(3)).start()
    yield double
    await double.stop()


async def test_the_key_reaches_a_rank(rank: RankDouble, key_of_gateway: asyncssh.SSHClientConnection) -> None:
    async with key_of_gateway.create_process(RANK, encoding=None) as process:
        process.stdin.write(encode(to_wire(Hello("test", SPOKEN))))
        assert b"hello" in await process.stdout.read(100)


@pytest.mark.parametrize(
    "command",
    [
        None,
        "",
        "id",
        "r-0.sock",
        f"{RANK}\n",
        f"./{RANK}",
        f"../{{folder}}/{RANK}",
        f"{{folder}}/{RANK}",
        f"{RANK};id",
        "{agent}",
        "r-111111111111.sock",  # a symbolic link to the agent's socket
        "r-222222222222.sock",  # a file
        "sh -c 'id'",
        "scp -t /tmp/x",
        "internal-sftp",
    ],
)
async def test_the_key_runs_nothing_and_reaches_no_other_socket(
    rank: RankDouble, home: Path, key_of_gateway: asyncssh.SSHClientConnection, command: str | None
) -> None:
    agent = await asyncio.start_unix_server(
        lambda _, writer: writer.write(b"agent"), home / "a-000000000000.sock"
    )
    (home / "r-111111111111.sock").symlink_to(home / "a-000000000000.sock")
    (home / "r-222222222222.sock").touch()
    asked = command and command.format(folder=home, agent="a-000000000000.sock")
    done = await asyncio.wait_for(key_of_gateway.run(asked, input=""), 60)
    assert (done.exit_status, done.stdout) == (77, "")
    assert str(done.stderr).startswith("relay: ")
    assert rank.connections == 0
    agent.close()


async def test_a_socket_that_is_not_there_is_said_to_be_so(
    key_of_gateway: asyncssh.SSHClientConnection,
) -> None:
    done = await key_of_gateway.run(RANK, input="")
    assert (done.exit_status, done.stderr) == (69, f"relay: {RANK}: No such file or directory\n")


async def test_the_key_forwards_nothing_and_gets_no_terminal(
    rank: RankDouble, machine: Sshd, key_of_gateway: asyncssh.SSHClientConnection
) -> None:
    with pytest.raises(asyncssh.ChannelOpenError):
        await key_of_gateway.open_connection("127.0.0.1", machine.port)
    with pytest.raises(asyncssh.ChannelOpenError):
        await key_of_gateway.open_unix_connection(str(rank.path))
    with pytest.raises(asyncssh.ChannelListenError):
        await key_of_gateway.forward_remote_port("127.0.0.1", 0, "127.0.0.1", machine.port)
    with pytest.raises(asyncssh.ChannelListenError):
        await key_of_gateway.forward_remote_path(f"{rank.path}.forwarded", str(rank.path))
    with pytest.raises(asyncssh.ChannelOpenError, match="PTY"):
        await key_of_gateway.create_process(RANK, term_type="xterm")
    with pytest.raises(asyncssh.Error):
        await asyncio.wait_for(key_of_gateway.start_sftp_client(), 60)
    assert rank.connections == 0


async def test_a_rank_is_held_up_by_a_gateway_that_does_not_read(
    machine: Sshd, home: Path, key_of_gateway: asyncssh.SSHClientConnection
) -> None:
    sent = 0
    piece = b"x" * 65536

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with contextlib.suppress(OSError):
            for _ in range(4 * IN_FLIGHT_BYTES_MAX // len(piece)):
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
        writer.close()

    flooding = await asyncio.start_unix_server(flood, home / RANK)
    reader = _Reader()
    channel, _ = await key_of_gateway.create_session(lambda: reader, RANK, encoding=None)
    channel.pause_reading()
    await eventually(lambda: sent > 0)
    await stands_still(lambda: sent)
    assert 0 < sent < IN_FLIGHT_BYTES_MAX
    channel.resume_reading()
    await asyncio.wait_for(channel.wait_closed(), 60)
    assert reader.received == sent == 4 * IN_FLIGHT_BYTES_MAX
    flooding.close()


class _Reader(asyncssh.SSHClientSession[bytes]):
    """Counts what comes."""

    def __init__(self) -> None:
        self.received = 0

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self.received += len(data)
