"""The gateway's connections to ranks on other machines: one SSH connection to each machine, one channel on it for each rank.

The key is the gateway's own; on the machine, it is good for the relay alone (``gateway_key``). Neither the user's
``~/.ssh/config`` nor an SSH agent is used: a process that talks to clients has no more rights than that key.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

import asyncssh

from reconciler.wire.generation import Jump, Machine
from reconciler.wire.paths import MARKED, RELAY_MARK

from .gateway_key import public_key
from .ssh.channels import Pipe

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 3.0
KEEPALIVES_MAX = 3
"""A machine that leaves so many keep-alives unanswered counts as lost, about ten seconds after its loss."""
IDLE_SECONDS = 60.0
"""The time that an unused connection is kept, because a group that is formed again soon needs one."""
EXIT_REFUSED = 77
"""Exit status of a relay that refuses a request because it is not for a rank's socket (``agent/relay.py``)."""
_TAIL_BYTES = 1000
_SPLICE_BYTES = 64 * 1024
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr")
"""Cheapest first."""

log = logging.getLogger(__name__)


class Relays:
    """Opens channels to ranks on any machine. Used on one event loop."""

    def __init__(self, key: Path, keepalive: float = KEEPALIVE_SECONDS) -> None:
        asyncssh.set_log_level(logging.WARNING)
        self._key = key
        self._keepalive = keepalive
        self._trunks: dict[Machine, _Trunk] = {}

    async def open(self, machine: Machine, name: str, protocol: asyncio.Protocol) -> None:
        """Connect ``protocol`` to a rank, by the name of its socket. Its methods are called as for a socket.

        Raises ``OSError`` if the machine cannot be reached. If the rank cannot be reached from there, the protocol's
        connection ends with the reason.
        """
        trunk = self._trunks.get(machine)
        if trunk is None:
            trunk = self._trunks[machine] = _Trunk(machine, self._key, self._keepalive)
        await trunk.open(name, protocol)

    def close(self) -> None:
        """End every connection, with the channels on it."""
        for trunk in self._trunks.values():
            trunk.close()
        self._trunks.clear()


class _Trunk:
    """The single connection to a machine: made on first use, and again after it has ended."""

    def __init__(self, machine: Machine, key: Path, keepalive: float) -> None:
        self._machine = machine
        self._key = key
        self._keepalive = keepalive
        self._connecting: asyncio.Task[asyncssh.SSHClientConnection] | None = None
        self._sessions: set[_Session] = set()
        self._marks = True
        """True if the relay there knows the mark; a relay of an older agent refuses it."""
        self._idle: asyncio.TimerHandle | None = None

    async def open(self, name: str, protocol: asyncio.Protocol) -> None:
        session = _Session(protocol, self._ended, self._marks)
        self._sessions.add(session)
        try:
            connection = await self._connection()
            # Never interrupted halfway: the channel would stay open, and a server allows only ten.
            opening = asyncio.create_task(
                connection.create_session(lambda: session, name + MARKED * self._marks, encoding=None)
            )
            opening.add_done_callback(_see)
            await asyncio.shield(opening)
        except (asyncssh.Error, TimeoutError, OSError) as error:
            self._ended(session)
            raise ConnectionError(f"{self}: {error or type(error).__name__}") from error
        except asyncio.CancelledError:
            session.abandon()
            self._ended(session)
            raise

    def close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        connecting, self._connecting = self._connecting, None
        if connecting is None:
            return
        connecting.cancel()
        if connecting.done() and not connecting.cancelled() and connecting.exception() is None:
            connecting.result().abort()

    def __str__(self) -> str:
        return f"{self._machine.user}@{self._machine.host}:{self._machine.port}"

    async def _connection(self) -> asyncssh.SSHClientConnection:
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> asyncssh.SSHClientConnection:
        machine, task, route = self._machine, asyncio.current_task(), _Route(self)

        def lost(error: Exception | None) -> None:
            route.close()
            self._lost(task, error)

        try:
            for jump in machine.jumps:
                await route.over(jump, self._key.with_name(machine.key))
            return await self.reach(machine, self._key, route.end, lambda: _Client(lost))
        except BaseException:
            route.close()
            raise

    async def reach(
        self,
        to: Machine | Jump,
        key: Path,
        over: socket.socket | None,
        client: Callable[[], asyncssh.SSHClient] = asyncssh.SSHClient,
    ) -> asyncssh.SSHClientConnection:
        """Connect to a machine with one of the gateway's keys; ``over`` is the chain of jump hosts so far."""
        public_key(key)
        return await asyncssh.connect(
            to.host,
            to.port,
            sock=over,
            username=to.user,
            client_keys=[str(key)],
            known_hosts=([asyncssh.import_public_key(to.host_key)], [], []),
            client_factory=client,
            config=None,
            agent_path=None,
            gss_host=None,
            preferred_auth="publickey",
            encryption_algs=_CIPHERS,
            compression_algs=None,
            connect_timeout=CONNECT_SECONDS,
            login_timeout=CONNECT_SECONDS,
            keepalive_interval=self._keepalive,
            keepalive_count_max=KEEPALIVES_MAX,
        )

    def _connected(self, task: asyncio.Task[asyncssh.SSHClientConnection]) -> None:
        if task.cancelled() or task.exception() is not None:
            if self._connecting is task:
                self._connecting = None
        else:
            log.info("connected to %s", self)

    def _lost(self, connecting: asyncio.Task[object] | None, error: Exception | None) -> None:
        if self._connecting is connecting and self._connecting is not None:
            log.warning("the connection to %s has ended: %s", self, error or "closed by the machine")
            self._connecting = None

    def _ended(self, session: _Session) -> None:
        """Keep the connection for a while without channels."""
        self._sessions.discard(session)
        if session.refused and self._marks:
            log.info("%s has a relay of an older version", self)
            self._marks = False
        if self._idle is not None:
            self._idle.cancel()
        if not self._sessions:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._rest)

    def _rest(self) -> None:
        if not self._sessions:
            self.close()


def _see(task: asyncio.Task[object]) -> None:
    """Retrieve a task's error, because nobody may be left to handle it."""
    if not task.cancelled():
        task.exception()


class _Route:
    """A route over jump hosts: each of them connects a socket of ours to the server of the next one."""

    def __init__(self, trunk: _Trunk) -> None:
        self._trunk = trunk
        self._connections: list[asyncssh.SSHClientConnection] = []
        self._splices: list[asyncio.Task[None]] = []
        self.end: socket.socket | None = None
        """The socket of the last jump host's channel."""

    async def over(self, jump: Jump, key: Path) -> None:
        """Add another jump host. Raises ``ConnectionError`` that names the machine."""
        try:
            connection = await self._trunk.reach(jump, key, self.end)
            self._connections.append(connection)
            process = await connection.create_process(encoding=None)
            self.end, theirs = socket.socketpair()
            reader, writer = await asyncio.open_connection(sock=theirs)
        except (asyncssh.Error, TimeoutError, OSError) as error:
            raise ConnectionError(
                f"cannot connect through {jump.user}@{jump.host}:{jump.port}: {error or type(error).__name__}"
            ) from error
        self._splices += [
            asyncio.create_task(_splice(reader, process.stdin)),
            asyncio.create_task(_splice(process.stdout, writer)),
        ]

    def close(self) -> None:
        for splice in self._splices:
            splice.cancel()
        for connection in reversed(self._connections):
            connection.abort()


class _Source(Protocol):
    async def read(self, n: int, /) -> bytes: ...


class _Sink(Protocol):
    def write(self, data: bytes, /) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


async def _splice(source: _Source, sink: _Sink) -> None:
    """Copy data until one side ends, then end the other."""
    try:
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await source.read(_SPLICE_BYTES):
                sink.write(data)
                await sink.drain()
    finally:
        sink.close()


class _Client(asyncssh.SSHClient):
    """Reports the end of a connection."""

    def __init__(self, lost: Callable[[Exception | None], None]) -> None:
        self._lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(exc)


class _Session(asyncssh.SSHClientSession[bytes]):
    """One channel, which a protocol uses like a socket."""

    def __init__(self, protocol: asyncio.Protocol, ended: Callable[[_Session], None], marked: bool) -> None:
        self._protocol = protocol
        self._ended = ended
        self._unmarked = bytearray() if marked else None
        """The last output before the relay's mark; None once the mark has come, or if none will."""
        self.refused = False
        """True if the relay refused the request."""
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._abandoned = False
        self._errors = b""
        """The last error output of the relay."""

    def abandon(self) -> None:
        """Abandon the connection, because nobody waits for it any longer."""
        self._abandoned = True
        if self._channel is not None:
            self._channel.abort()

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._channel = chan
        if self._abandoned:
            chan.abort()

    def session_started(self) -> None:
        # Not earlier: a server drops data that arrive before the command, and start-up files may read data that arrive
        # before the relay's mark.
        if self._unmarked is None:
            self._begin()

    def _begin(self) -> None:
        if self._channel is not None and not self._abandoned:
            self._protocol.connection_made(cast(asyncio.Transport, Pipe(self._channel)))

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype is not None:
            self._errors = (self._errors + data)[-_TAIL_BYTES:]
        elif self._unmarked is None:
            self._protocol.data_received(data)
        else:
            self._unmarked += data
            _, mark, rest = self._unmarked.partition(RELAY_MARK)
            if not mark:
                del self._unmarked[: -len(RELAY_MARK)]
                return
            self._unmarked = None
            self._begin()
            if rest:
                self._protocol.data_received(bytes(rest))

    def exit_status_received(self, status: int) -> None:
        self.refused = status == EXIT_REFUSED and self._unmarked is not None

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(self)
        errors = self._errors.decode("utf-8", "replace").strip()
        self._protocol.connection_lost(ConnectionResetError(errors) if errors else exc)
