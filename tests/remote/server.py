"""An SSH server in the test's own process: it says who came, what was asked for, and what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh

from reconciler.resources import SshAccess
from reconciler.wire.generation import Machine

USER = "ada"


class Server:
    """One server, and all who are connected to it."""

    def __init__(self) -> None:
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.other_keys: list[asyncssh.SSHKey] = []
        self.passwords_only = False
        self.logins = 0
        self.connections: list[asyncssh.SSHServerConnection] = []
        self.channels: list[Channel] = []
        self.on_command: Callable[[Channel], None] = lambda channel: None
        self.on_data: Callable[[Channel, bytes], None] = lambda channel, data: channel.say(data)
        self.sockets: dict[str, Callable[[Any, Any], Awaitable[None]]] = {}
        """What listens at Unix sockets of the machine."""
        self.refuses = False
        """Whether it opens no channel any more."""
        self.refused = 0
        self.port = 0
        self._acceptor: asyncssh.SSHAcceptor | None = None

    @property
    def host_key(self) -> str:
        return " ".join(self.key.export_public_key().decode("ascii").split()[:2])

    @property
    def machine(self) -> Machine:
        return Machine("127.0.0.1", self.port, USER, self.host_key)

    @property
    def access(self) -> SshAccess:
        return SshAccess(host="127.0.0.1", port=self.port, user=USER, hostKey=self.host_key)

    async def start(self) -> None:
        """Listen, on the same port as before."""
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_host_keys=[self.key, *self.other_keys],
            server_factory=lambda: _Guest(self),
            encoding=None,
            gss_host=None,
        )
        self.port = self._acceptor.get_port()

    async def stop(self) -> None:
        """Listen no more, and end every connection."""
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.wait_closed()
        for connection in self.connections:
            connection.abort()
        for connection in self.connections:
            await connection.wait_closed()
        self.connections.clear()


class _Guest(asyncssh.SSHServer):
    """One who is connected."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._server.connections.append(conn)

    def begin_auth(self, username: str) -> bool:
        return True

    def auth_completed(self) -> None:
        self._server.logins += 1

    def public_key_auth_supported(self) -> bool:
        return not self._server.passwords_only

    def password_auth_supported(self) -> bool:
        return self._server.passwords_only

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == USER

    def session_requested(self) -> Any:
        if self._server.refuses:
            self._server.refused += 1
            return False
        return Channel(self._server)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True

    def unix_connection_requested(self, dest_path: str) -> Any:
        return self._server.sockets.get(dest_path, False)


class Channel(asyncssh.SSHServerSession[bytes]):
    """A command that was asked for. Without more it says what it is told, and ends with its input."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.command = ""
        self.input = b""
        self.signals: list[str] = []
        self.ended = asyncio.Event()
        self.running: asyncio.Task[None] | None = None
        server.channels.append(self)

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self.chan = chan

    def exec_requested(self, command: str) -> bool:
        self.command = command
        return True

    def session_started(self) -> None:
        self._server.on_command(self)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self.input += data
        self._server.on_data(self, data)

    def say(self, data: bytes, error: bool = False) -> None:
        with contextlib.suppress(OSError):
            (self.chan.write_stderr if error else self.chan.write)(data)

    def eof_received(self) -> bool:
        return False

    def signal_received(self, signal: str) -> None:
        self.signals.append(signal)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


@asynccontextmanager
async def server() -> AsyncIterator[Server]:
    """A server on a port of its own, while it lasts."""
    made = Server()
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def client_key(path: Path) -> Path:
    """A key that it lets in, written down."""
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(path)
    path.chmod(0o600)
    return path


def shell(home: Path) -> Callable[[Channel], None]:
    """Commands are run by a shell, in a home of their own."""

    def begin(channel: Channel) -> None:
        async def run() -> None:
            process = await asyncio.create_subprocess_shell(
                channel.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={"HOME": str(home), "PATH": os.environ["PATH"]},
            )
            out, err = await process.communicate(channel.input)
            channel.say(out)
            channel.say(err, error=True)
            channel.chan.exit(process.returncode or 0)

        def at_end() -> bool:
            channel.running = asyncio.create_task(run())
            return True

        channel.eof_received = at_end  # type: ignore[method-assign]

    return begin
