"""The SSH server of one emulated machine, on loopback: the parts of ``sshd`` that the reconciler needs.

Its user's ``authorized_keys`` decides who may log in, with ``command=`` and ``restrict`` as in sshd(8). There is a gate
between the network and the server: while it is closed, nothing passes, and no connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh

from .places import PASSWORD, USER, Place
from .world.state import Machine

LOOPBACK = "127.0.0.1"
_CHUNK = 65536
_LINGER_SECONDS = 0.5
"""Time for a command's output after its end: a process that it left behind may hold the pipe open."""
_ORIGINAL = "SSH_ORIGINAL_COMMAND"


class Sshd:
    """Serves one machine. ``machine`` returns its state."""

    def __init__(self, place: Place, machine: Callable[[], Machine]) -> None:
        self.place = place
        self._machine = machine
        self.port = 0
        self._listener: asyncio.Server | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._unlock: Callable[[], None] | None = None
        """Called with the right password while the disk is locked."""
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0, unlock: Callable[[], None] | None = None) -> int:
        """Listen at this port if it is free, else at another one. Return the port. With ``unlock``, the disk is locked:
        the server accepts only its password, calls ``unlock``, and opens no session."""
        self._unlock = unlock
        try:
            self._listener = await asyncio.start_server(self._accept, self._machine().lan, port)
        except OSError:
            if port == 0 or self.port:
                raise
            self._listener = await asyncio.start_server(self._accept, self._machine().lan, 0)
        self.port = int(self._listener.sockets[0].getsockname()[1])
        return self.port

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self.abort()
        own = asyncio.current_task()
        going = [task for task in self._tasks if task is not own]
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)

    def abort(self) -> None:
        """Reset all connections; new ones are accepted."""
        for connection in tuple(self._connections):
            connection.abort()

    async def move(self) -> None:
        """Listen at the machine's new address, if it is up, and reset all connections to the old one."""
        if self._listener is None:
            return
        self._listener.close()
        self.abort()
        self._listener = await asyncio.start_server(self._accept, self._machine().lan, self.port)

    def gate(self, is_open: bool) -> None:
        """Let everything through, or nothing."""
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        outer, inner = socket.socketpair()
        try:
            there_reader, there_writer = await asyncio.open_connection(sock=outer)
        except asyncio.CancelledError:
            inner.close()
            writer.transport.abort()
            raise
        try:
            pumps = (self._pump(reader, there_writer), self._pump(there_reader, writer), self._serve(inner))
            await asyncio.gather(*pumps, return_exceptions=True)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            # If cancelled before its first step, ``_serve`` has not taken the connection over.
            inner.close()
            for end in (writer, there_writer):
                end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
        await self._open.wait()
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()

    async def _serve(self, inner: socket.socket) -> None:
        connection: asyncssh.SSHServerConnection | None = None
        try:
            unlock = self._unlock
            connection = await asyncssh.run_server(
                inner, server_factory=lambda: _Locked(unlock) if unlock else _Login(self.place),
                server_host_keys=[str(self.place.host_key)], public_key_auth=not unlock, password_auth=bool(unlock),
                process_factory=self._session, encoding=None, sftp_factory=None, allow_scp=False,
                x11_forwarding=False, agent_forwarding=False, kbdint_auth=False,
                host_based_auth=False, gss_host=None, line_editor=False, login_timeout=30, keepalive_interval=0,
            )  # fmt: skip
            self._connections.add(connection)
            await connection.wait_closed()
        except (asyncssh.Error, OSError):
            pass  # the client did not log in
        finally:
            if connection is not None:
                self._connections.discard(connection)
                connection.abort()

    async def _session(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        delay = self._machine().faults.ssh_seconds
        if delay:
            await asyncio.sleep(delay)
        forced = process.get_extra_info("forced")
        command, more = process.command, {"SSH_CONNECTION": f"{LOOPBACK} 0 {LOOPBACK} {self.port}"}
        if forced is not None:
            command, more = forced, {**more, _ORIGINAL: process.command or ""}
        status = await _run(process, command, self.place, more)
        if status < 0:
            process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
        else:
            process.exit(status)


class _Login(asyncssh.SSHServer):
    """Admits the keys in the user's ``authorized_keys``."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._connection: asyncssh.SSHServerConnection | None = None
        self._restricted = False

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        options = _entry(self._place.authorized, key) if username == USER else None
        if options is None:
            return False
        assert self._connection is not None
        self._restricted = "restrict" in options or "command" in options
        self._connection.set_extra_info(forced=options.get("command"))
        return True

    def unix_connection_requested(self, dest_path: str) -> bool:
        return not self._restricted


class _Locked(asyncssh.SSHServer):
    """The server before the disk is unlocked: it takes the password, but lets nobody in yet
    (apple_ssh_and_filevault(7))."""

    def __init__(self, unlock: Callable[[], None]) -> None:
        self._unlock = unlock

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        if (username, password) == (USER, PASSWORD):
            self._unlock()
        return False


def _entry(path: Path, key: asyncssh.SSHKey) -> Any:
    """Return the options of a key in ``authorized_keys``; None without the key."""
    try:
        return asyncssh.import_authorized_keys(path.read_text(encoding="utf-8")).validate(
            key, LOOPBACK, LOOPBACK
        )
    except (OSError, ValueError):
        return None


async def _run(
    process: asyncssh.SSHServerProcess[bytes], command: str | None, place: Place, more: dict[str, str]
) -> int:
    """Run a command, or a shell, as ``sshd`` does without a terminal. Return its status, negative for a signal."""
    words = ("/bin/sh", "-c", command) if command is not None else ("/bin/sh",)
    child = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**place.environment, **more}, cwd=place.home, start_new_session=True,
    )  # fmt: skip
    assert child.stdin is not None
    feeding = asyncio.create_task(_feed(process, child))
    outputs = [
        asyncio.create_task(_copy_output(reader, writer))
        for reader, writer in ((child.stdout, process.stdout), (child.stderr, process.stderr))
        if reader is not None
    ]
    try:
        status = await child.wait()
        await asyncio.wait(outputs, timeout=_LINGER_SECONDS)
        return status
    finally:
        for task in (feeding, *outputs):
            task.cancel()
        child.stdin.close()


async def _feed(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process) -> None:
    """Pass input and signals of the other side to the command; its input ends with the connection."""
    assert child.stdin is not None
    try:
        while True:
            try:
                chunk = await process.stdin.read(_CHUNK)
            except asyncssh.SignalReceived as received:
                with contextlib.suppress(ProcessLookupError, AttributeError):
                    os.killpg(child.pid, signal.Signals[f"SIG{received.signal}"])
                continue
            except (asyncssh.BreakReceived, asyncssh.TerminalSizeChanged):
                continue
            if not chunk:
                break
            child.stdin.write(chunk)
            await child.stdin.drain()
    except (asyncssh.Error, OSError):
        pass  # the connection, or the command, has ended
    child.stdin.close()


async def _copy_output(reader: asyncio.StreamReader, writer: asyncssh.SSHWriter[bytes]) -> None:
    """Pass the command's output to the other side, while there is one."""
    while chunk := await reader.read(_CHUNK):
        with contextlib.suppress(asyncssh.Error, OSError):
            writer.write(chunk)
            await writer.drain()
