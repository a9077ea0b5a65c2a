"""The launchers of a group: they meet before any program starts, and hear how the others' programs end.

Rank 0's launcher is the middle: the others connect to it, over TLS with the group's own certificate. Anyone may knock while
it waits for them; who does not show in time that it belongs to the group is shown out. Nobody listens afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from typing import Any, Callable, Dict, List, Mapping, Optional, Set

from reconciler.wire import frames
from reconciler.wire.codec import WireError, decode, to_wire
from reconciler.wire.gang import (
    LEADER_RECEIVES,
    MEMBER_RECEIVES,
    Begin,
    EndRemote,
    Meet,
    Over,
    RemoteOver,
    RunRemote,
)
from reconciler.wire.launch import ExitCode, RankConfig, RankEnd
from reconciler.wire.sockets import split_address, trusting, tune

STRANGER_SECONDS = 10.0
STRANGERS_MAX = 64
"""One more makes the oldest leave."""
BACKLOG = 1024
RETRY_SECONDS = 0.05
CLOSE_SECONDS = 1.0
NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH)


class Peer:
    """The connection with another launcher."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, known: Mapping[str, type]) -> Any:
        """Return the next message. Raises ``OSError`` at the connection's end, and ``WireError``."""
        frame = await frames.read(self._reader)
        if frame is None:
            raise ConnectionError("its connection was closed")
        return decode(frame, known)

    async def send(self, message: Any) -> None:
        """Send a message. Raises ``OSError``."""
        self._writer.write(frames.encode(to_wire(message)))
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """Close the connection at once; what is not sent is lost."""
        self._writer.transport.abort()

    async def closed(self) -> None:
        """Wait until everything is sent, and the other side knows, but not for long."""
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), CLOSE_SECONDS)


class Gang:
    """This launcher's part of the group. ``on_loss`` is called with a ``RankEnd`` when another rank has failed or is gone."""

    def __init__(self, config: RankConfig, on_loss: Callable[[Exception], None]) -> None:
        self._config = config
        self._on_loss = on_loss
        self._peers: Dict[int, Peer] = {}
        self._over: Set[int] = set()
        """Ranks whose program has ended with status 0."""
        self._changed = asyncio.Event()
        self._tasks: List[asyncio.Task[None]] = []
        self.on_remote: Optional[Callable[[Any], None]] = None
        """Called on another rank with ``RunRemote`` and ``EndRemote``, and on rank 0 with a rank and ``RemoteOver``."""
        self.finished = asyncio.Event()
        """Set on another rank when rank 0's program has ended with status 0."""

    async def meet(self) -> None:
        """Return once all launchers are there. Raises ``RankEnd``: ``RENDEZVOUS``, ``NO_ROUTE``, ``PORT_IN_USE``,
        ``CONFIG``."""
        if self._config.id.rank == 0:
            await self._lead()
        else:
            await self._join()

    async def send(self, rank: int, message: Any) -> None:
        """Send a message to another rank. A connection that is over is noticed elsewhere."""
        with contextlib.suppress(OSError, KeyError):
            await self._peers[rank].send(message)

    async def tell_end(self, ok: bool, text: str) -> None:
        """Tell the others how this rank's program has ended. Rank 0 then stays until all others are over, if all is well:
        without it they would not hear of each other."""
        over = Over(self._config.id.rank, ok, text)
        for rank in tuple(self._peers):
            await self.send(rank, over)
        if self._config.id.rank == 0 and ok:
            while len(self._over) < len(self._peers):
                self._changed.clear()
                await self._changed.wait()

    async def close(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        for peer in self._peers.values():
            peer.close()
        await asyncio.gather(*(peer.closed() for peer in self._peers.values()))

    # --- meeting ---

    async def _lead(self) -> None:
        config = self._config
        loop = asyncio.get_event_loop()
        context = _context(config, server=True)
        with contextlib.ExitStack() as doors:
            listeners = [doors.enter_context(_listen(at)) for at in (config.control, *config.also_control)]
            knocking: List[asyncio.Task[None]] = []
            for listener in listeners:
                loop.add_reader(listener, self._accept, listener, context, knocking)
                doors.callback(loop.remove_reader, listener)
            doors.callback(_show_out, knocking)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._all_there(), config.rendezvous_seconds)
            missing = [rank for rank in range(1, config.size) if rank not in self._peers]
        if missing:
            text = "rank {} did not connect within {:g} s"
            raise RankEnd(
                ExitCode.RENDEZVOUS, text.format(", ".join(map(str, missing)), config.rendezvous_seconds)
            )
        for rank in tuple(self._peers):
            await self.send(rank, Begin())

    async def _all_there(self) -> None:
        while len(self._peers) < self._config.size - 1:
            self._changed.clear()
            await self._changed.wait()

    def _accept(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        knocking: List[asyncio.Task[None]],
    ) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # it was gone before it was served
        connection.setblocking(False)
        knocking[:] = [task for task in knocking if not task.done()]
        if len(knocking) >= STRANGERS_MAX:
            knocking.pop(0).cancel()
        knocking.append(asyncio.ensure_future(self._admit(connection, context)))

    async def _admit(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        """Let a launcher of the group in; close the connection of anybody else."""
        with contextlib.ExitStack() as refused:
            refused.callback(connection.close)
            try:
                tune(connection)
                peer = await asyncio.wait_for(_serve(connection, context), STRANGER_SECONDS)
                refused.callback(
                    peer.abort
                )  # first: the loop has to forget the descriptor before it is another's
                meet = await asyncio.wait_for(peer.receive(LEADER_RECEIVES), STRANGER_SECONDS)
            except (OSError, WireError, asyncio.TimeoutError, EOFError):
                return
            member = isinstance(meet, Meet) and 0 < meet.rank < self._config.size
            if not member or meet.epoch != self._config.id.epoch:
                return
            refused.pop_all()
        if meet.rank in self._peers:  # it lost its first connection and came again
            self._peers[meet.rank].close()
        self._peers[meet.rank] = peer
        self._tasks.append(asyncio.ensure_future(self._hear_member(meet.rank, peer)))
        self._changed.set()

    async def _join(self) -> None:
        config = self._config
        loop = asyncio.get_event_loop()
        context = _context(config, server=False)
        deadline = loop.time() + config.rendezvous_seconds
        failure: Optional[Exception] = None
        while (left := deadline - loop.time()) > 0:
            try:
                peer = await asyncio.wait_for(_connect(config.control, context), min(left, STRANGER_SECONDS))
                await peer.send(Meet(config.id.rank, config.id.epoch))
                begin = await asyncio.wait_for(
                    peer.receive(MEMBER_RECEIVES), max(0.1, deadline - loop.time())
                )
                if isinstance(begin, Begin):
                    self._peers[0] = peer
                    self._tasks.append(asyncio.ensure_future(self._hear_leader(peer)))
                    return
            except asyncio.TimeoutError:
                failure = failure or TimeoutError("no answer")
            except (OSError, WireError, EOFError) as error:
                failure = error
            await asyncio.sleep(RETRY_SECONDS)
        lost = isinstance(failure, OSError) and failure.errno in NO_ROUTE
        text = "rank 0 did not welcome this rank at {} within {:g} s: {}"
        raise RankEnd(
            ExitCode.NO_ROUTE if lost else ExitCode.RENDEZVOUS,
            text.format(config.control, config.rendezvous_seconds, failure),
        )

    # --- afterwards ---

    async def _hear_member(self, rank: int, peer: Peer) -> None:
        """On rank 0: hear another rank until its connection ends."""
        problem = ""
        try:
            while True:
                message = await peer.receive(LEADER_RECEIVES)
                if isinstance(message, Over):
                    self._on_over(rank, message)
                elif isinstance(message, RemoteOver) and self.on_remote is not None:
                    self.on_remote((rank, message))
        except (OSError, WireError, EOFError) as error:
            problem = str(error)
        if self._peers.get(rank) is not peer:
            return  # it has come again
        if len(self._peers) < self._config.size - 1:  # the others are still waited for: it may come again
            del self._peers[rank]
        elif rank not in self._over:
            await self._fail(rank, "is gone: {}".format(problem))

    def _on_over(self, rank: int, message: Over) -> None:
        if message.ok:
            self._over.add(rank)
            self._changed.set()
        else:
            self._tasks.append(asyncio.ensure_future(self._fail(rank, "ended with {}".format(message.text))))

    async def _fail(self, rank: int, how: str) -> None:
        for other in tuple(self._peers):
            if other != rank:
                await self.send(other, Over(rank, False, how))
        self._on_loss(RankEnd(ExitCode.PEER_LOST, "rank {} {}".format(rank, how)))

    async def _hear_leader(self, peer: Peer) -> None:
        """On another rank: hear rank 0 until the connection ends."""
        try:
            while True:
                message = await peer.receive(MEMBER_RECEIVES)
                if isinstance(message, Over) and message.ok:
                    self.finished.set()
                elif isinstance(message, Over):
                    how = message.text if message.rank else "ended with {}".format(message.text)
                    self._on_loss(RankEnd(ExitCode.PEER_LOST, "rank {} {}".format(message.rank, how)))
                elif isinstance(message, (RunRemote, EndRemote)) and self.on_remote is not None:
                    self.on_remote(message)
        except (OSError, WireError, EOFError) as error:
            self._on_loss(RankEnd(ExitCode.PEER_LOST, "rank 0 is gone: {}".format(error)))


def _context(config: RankConfig, server: bool) -> ssl.SSLContext:
    """Return a context that trusts the group's certificate alone. Raises ``RankEnd(CONFIG)``."""
    try:
        return trusting(config.secret, server)
    except ValueError as error:
        raise RankEnd(ExitCode.CONFIG, str(error)) from None


def _listen(address: str) -> socket.socket:
    """Return a listener. Raises ``RankEnd``."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(split_address(address))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        code = ExitCode.PORT_IN_USE if error.errno == errno.EADDRINUSE else ExitCode.RENDEZVOUS
        text = "cannot listen for the other ranks on {}: {}".format(address, error.strerror)
        raise RankEnd(code, text) from None
    return listener


def _show_out(knocking: List[asyncio.Task[None]]) -> None:
    for task in knocking:
        task.cancel()


async def _serve(connection: socket.socket, context: ssl.SSLContext) -> Peer:
    """Shake hands as the side that has accepted the connection. Raises ``OSError``."""
    loop = asyncio.get_event_loop()
    reader = asyncio.StreamReader(limit=frames.FRAME_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=context)
    return Peer(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


async def _connect(address: str, context: ssl.SSLContext) -> Peer:
    """Connect to rank 0. Raises ``OSError``."""
    loop = asyncio.get_event_loop()
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        tune(connection)
        connection.setblocking(False)
        await loop.sock_connect(connection, split_address(address))
        if connection.getsockname() == connection.getpeername():
            # TCP connects a port of this host to itself when nobody listens and the port happens to be drawn.
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nothing listens there yet")
        reader, writer = await asyncio.open_connection(sock=connection, ssl=context, server_hostname="")
    except BaseException:
        connection.close()
        raise
    return Peer(reader, writer)
