"""The control channel, with which the ranks of a group find each other and rank 0 talks to the others.

It is formed before MLX's own connections, because those have neither a secret nor a time limit: when MLX connects,
every rank of this epoch is known to exist, with the same versions and weights.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import selectors
import socket
import time
from collections.abc import Mapping, Sequence

from reconciler.runner.process.config import split_address
from reconciler.runner.process.ending import RankEnd
from reconciler.wire.codec import WireError, decode, to_wire
from reconciler.wire.frames import Decoder, encode, receive
from reconciler.wire.group import FOLLOWER_RECEIVES, LEADER_RECEIVES, Join, Joined
from reconciler.wire.launch import ExitCode, RankConfig

JOIN_BYTES_MAX = 16 * 1024
"""A stranger who sends more before a valid ``Join`` is dropped."""
STRANGER_SECONDS = 10.0
STRANGERS_MAX = 64
RETRY_SECONDS = 0.05
NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH)
"""Errors without any connection; a refused connection did reach the machine, and a time-out shows nothing."""
NO_ROUTE_SECONDS = 20.0
"""Longer than an interface needs to come up. A rank that says early why it cannot join is more useful than rank 0,
which only reports a missing rank at its own time-out."""
DEAD_AFTER_SECONDS = 20
"""A peer that vanishes without closing its connection (power, cable) is given up after about this long."""


def lead(config: RankConfig, mine: Join) -> dict[int, socket.socket]:
    """Wait for all other ranks and welcome them; returns their connections by rank.

    Raises ``RankEnd``: ``PORT_IN_USE``, ``RENDEZVOUS`` when they do not come in time, ``UNEQUAL`` when they do
    not fit.
    """
    with contextlib.ExitStack() as doors:
        listeners = [doors.enter_context(_listen(at)) for at in (config.control, *config.also_control)]
        joined = _Rendezvous(config, mine, listeners).wait()
    problem = _problem(mine, {rank: join for rank, (join, _) in joined.items()})
    welcome = encode(to_wire(Joined(problem=problem)))
    for _, connection in joined.values():
        with contextlib.suppress(OSError):  # a peer that has gone in the meantime is the watch's to notice
            connection.sendall(welcome)
    if problem:
        raise RankEnd(ExitCode.UNEQUAL, problem)
    return {rank: connection for rank, (_, connection) in joined.items()}


def follow(config: RankConfig, mine: Join) -> socket.socket:
    """Join rank 0; returns the connection once all ranks are there.

    Raises ``RankEnd``: ``RENDEZVOUS`` when it is not there in time, ``NO_ROUTE`` when there was no way to it all the
    time, or for ``NO_ROUTE_SECONDS`` on end, ``UNEQUAL`` when this rank does not fit.
    """
    began = time.monotonic()
    deadline = began + config.rendezvous_seconds
    failure, reachable_at, code = "no attempt", began, ExitCode.RENDEZVOUS
    while time.monotonic() < deadline:
        try:
            connection = _connect(config.control, deadline)
        except OSError as error:
            failure = str(error)
            code = ExitCode.NO_ROUTE if error.errno in NO_ROUTE else ExitCode.RENDEZVOUS
            if code != ExitCode.NO_ROUTE:
                reachable_at = time.monotonic()
            elif time.monotonic() - reachable_at >= NO_ROUTE_SECONDS:
                break
            time.sleep(RETRY_SECONDS)
            continue
        code, reachable_at = ExitCode.RENDEZVOUS, time.monotonic()
        try:
            connection.sendall(encode(to_wire(mine)))
            answer = receive(connection)
            if answer is not None:
                return _welcomed(connection, decode(answer, FOLLOWER_RECEIVES))
            failure = "rank 0 closed the connection"
        except (OSError, WireError) as error:
            failure = str(error)
        connection.close()
        time.sleep(RETRY_SECONDS)
    raise RankEnd(
        code,
        f"rank 0 did not welcome this rank at {config.control} within {time.monotonic() - began:.0f} s: {failure}",
    )


def broadcast(connections: Mapping[int, socket.socket], message: object) -> None:
    """Send one message to every follower, encoded once. Raises ``RankEnd(PEER_LOST)``."""
    frame = encode(to_wire(message))
    for rank, connection in connections.items():
        try:
            connection.sendall(frame)
        except OSError as error:
            raise RankEnd(ExitCode.PEER_LOST, f"rank {rank} is gone: {error}") from None


def _welcomed(connection: socket.socket, answer: object) -> socket.socket:
    if not isinstance(answer, Joined):
        raise WireError(f"expected Joined, got {type(answer).__name__}")
    if answer.problem:
        raise RankEnd(ExitCode.UNEQUAL, answer.problem)
    connection.settimeout(None)
    return connection


def _listen(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(split_address(address))
        listener.listen(STRANGERS_MAX)
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        code = ExitCode.PORT_IN_USE if taken else ExitCode.RENDEZVOUS
        raise RankEnd(code, f"cannot listen for the other ranks on {address}: {error.strerror}") from None
    listener.setblocking(False)
    return listener


def _connect(address: str, deadline: float) -> socket.socket:
    connection = socket.create_connection(split_address(address), timeout=_seconds_left(deadline))
    if connection.getsockname() == connection.getpeername():
        # TCP connects a port of this host to itself when nobody listens and the port happens to be drawn.
        connection.close()
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nothing listens there yet")
    _tune(connection)
    connection.settimeout(_seconds_left(deadline))
    return connection


def _seconds_left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _tune(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))  # Linux, macOS
    if idle is not None:
        connection.setsockopt(socket.IPPROTO_TCP, idle, DEAD_AFTER_SECONDS // 2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, DEAD_AFTER_SECONDS // 4)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_SECONDS * 1000)


def _problem(mine: Join, joins: Mapping[int, Join]) -> str:
    for rank, join in sorted(joins.items()):
        for what, here, there in (
            ("epoch", mine.epoch, join.epoch),
            ("mlx version", mine.mlx, join.mlx),
            ("mlx-lm version", mine.mlx_lm, join.mlx_lm),
            ("digest of the weights", mine.weights, join.weights),
        ):
            if here != there:
                return f"the {what} is {here} on rank 0 and {there} on rank {rank}; they must be equal"
    return ""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # JSON may hold half a character, and a stranger sends it


class _Unidentified:
    """A connection whose rank is not known yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.decoder = Decoder()
        self.bytes = 0
        self.until = time.monotonic() + STRANGER_SECONDS

    def read_join(self) -> Join | None:
        """Return its ``Join`` once it is complete. Raises ``OSError`` or ``WireError`` if it is unusable."""
        chunk = self.connection.recv(JOIN_BYTES_MAX)
        self.bytes += len(chunk)
        if not chunk or self.bytes > JOIN_BYTES_MAX:
            raise WireError("not a rank")
        frames = self.decoder.feed(chunk)
        if not frames:
            return None
        join = decode(frames[0], LEADER_RECEIVES)
        assert isinstance(join, Join)
        return join


class _Rendezvous:
    """Rank 0 at the door: anyone may knock, only ranks of this group with the secret come in."""

    def __init__(self, config: RankConfig, mine: Join, listeners: Sequence[socket.socket]) -> None:
        self._config = config
        self._secret = _bytes(mine.secret)
        self._listeners = listeners
        self._selector = selectors.DefaultSelector()
        self._strangers: dict[socket.socket, _Unidentified] = {}
        self._joined: dict[int, tuple[Join, socket.socket]] = {}

    def wait(self) -> dict[int, tuple[Join, socket.socket]]:
        deadline = time.monotonic() + self._config.rendezvous_seconds
        for listener in self._listeners:
            self._selector.register(listener, selectors.EVENT_READ)
        try:
            while len(self._joined) < self._config.size - 1:
                if time.monotonic() > deadline:
                    raise self._timeout_error()
                for key, _ in self._selector.select(timeout=1.0):
                    if key.fileobj in self._listeners:
                        self._accept(key.fileobj)  # type: ignore[arg-type]
                    else:
                        self._read_from(self._strangers[key.fileobj])  # type: ignore[index]
                self._drop_silent()
        finally:
            for stranger in list(self._strangers.values()):
                self._drop(stranger)
            self._selector.close()
        return self._joined

    def _timeout_error(self) -> RankEnd:
        missing = [rank for rank in range(1, self._config.size) if rank not in self._joined]
        return RankEnd(
            ExitCode.RENDEZVOUS,
            f"rank {', '.join(map(str, missing))} did not connect within {self._config.rendezvous_seconds:g} s",
        )

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # it was gone before it was served
        if len(self._strangers) >= STRANGERS_MAX:
            connection.close()
            return
        connection.setblocking(False)
        self._strangers[connection] = _Unidentified(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _read_from(self, stranger: _Unidentified) -> None:
        try:
            join = stranger.read_join()
        except BlockingIOError:
            return
        except (OSError, WireError):
            self._drop(stranger)
            return
        if join is None:
            return
        belongs = hmac.compare_digest(_bytes(join.secret), self._secret)
        if not belongs or not 0 < join.rank < self._config.size:
            self._drop(stranger)
            return
        self._admit(stranger, join)

    def _admit(self, stranger: _Unidentified, join: Join) -> None:
        self._selector.unregister(stranger.connection)
        del self._strangers[stranger.connection]
        if join.rank in self._joined:  # it lost its first connection and came again
            self._joined[join.rank][1].close()
        stranger.connection.setblocking(True)
        _tune(stranger.connection)
        self._joined[join.rank] = (join, stranger.connection)

    def _drop_silent(self) -> None:
        now = time.monotonic()
        for stranger in [s for s in self._strangers.values() if s.until < now]:
            self._drop(stranger)

    def _drop(self, stranger: _Unidentified) -> None:
        self._selector.unregister(stranger.connection)
        del self._strangers[stranger.connection]
        stranger.connection.close()
