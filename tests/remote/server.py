"""An SSH server in the test's own process: it says who came, what was asked for, and what became of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh

from reconciler.remote.ssh.login_shell import ERR_MARK, OUT_MARK
from reconciler.resources import SshAccess
from reconciler.wire.generation import Machine
from reconciler.wire.paths import MARKED, RELAY_MARK

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
        self.on_command: Callable[[Channel], None] = Channel.begin
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
        commands = [channel.running for channel in self.channels if channel.running]
        await asyncio.gather(*commands, return_exceptions=True)  # each is killed with its connection


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
        return self._server.sockets.get(dest_path, Path(dest_path).is_socket())


class Channel(asyncssh.SSHServerSession[bytes]):
    """A command that was asked for. Without more it says what it is told, and ends with its input."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.command = ""
        self.input = b""
        self.signals: list[str] = []
        self.ended = asyncio.Event()
        self.running: asyncio.Task[None] | None = None
        self.process: asyncio.subprocess.Process | None = None
        """The login shell that runs the command."""
        self.input_ended = False
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
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.write(data)
        self._server.on_data(self, data)

    @property
    def script(self) -> str:
        """What ``/bin/sh`` is to run there."""
        return base64.b64decode(self.command.rpartition(" ")[2]).decode()

    def begin(self) -> None:
        """Say that the command, or the relay, has started."""
        if self.command.endswith(MARKED):
            self.say(RELAY_MARK)
        else:
            self.say(b"\n" + ERR_MARK, error=True)
            self.say(b"\n" + OUT_MARK + b"/bin/sh\n")

    def say(self, data: bytes, error: bool = False) -> None:
        with contextlib.suppress(OSError):
            (self.chan.write_stderr if error else self.chan.write)(data)

    def eof_received(self) -> bool:
        self.input_ended = True
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        return self.running is not None

    def signal_received(self, signal: str) -> None:
        self.signals.append(signal)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        if self.process is not None and self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # as sshd does not: no test leaves a process behind


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


def shell(home: Path, program: str = "/bin/sh") -> Callable[[Channel], None]:
    """Commands are run by a login shell, as sshd does, in a home of their own."""

    def begin(channel: Channel) -> None:
        async def copy(source: asyncio.StreamReader | None, error: bool) -> None:
            assert source is not None
            while data := await source.read(65536):
                channel.say(data, error)

        async def run() -> None:
            environment = {
                "HOME": str(home),
                "PATH": os.environ["PATH"],
                "SHELL": program,
                "SSH_CLIENT": "127.0.0.1 1 22",
            }
            process = await asyncio.create_subprocess_exec(
                program,
                "-c",
                channel.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=home,
                env=environment,
                start_new_session=True,
            )
            assert process.stdin is not None
            channel.process = process
            if channel.ended.is_set():
                os.killpg(process.pid, signal.SIGKILL)  # it was left before it had begun
            process.stdin.write(channel.input)
            if channel.input_ended:
                process.stdin.close()
            copying = asyncio.gather(copy(process.stdout, False), copy(process.stderr, True))
            status = await process.wait()
            await copying
            if status < 0:
                channel.chan.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
            else:
                channel.chan.exit(status)

        channel.running = asyncio.create_task(run())

    return begin
