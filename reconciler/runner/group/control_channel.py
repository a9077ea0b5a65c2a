"""The control channel, with which the ranks of a group find each other and rank 0 talks to the others.

It is formed before MLX's own connections, because those have neither a secret nor a time limit: when MLX connects,
every rank of this epoch is known to exist, with the same versions and weights.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import socket
import ssl
import time
from collections.abc import Mapping

from reconciler.wire.codec import WireError, decode, to_wire
from reconciler.wire.frames import encode
from reconciler.wire.group import FOLLOWER_RECEIVES, LEADER_RECEIVES, Join, Joined
from reconciler.wire.launch import ExitCode, RankConfig, RankEnd
from reconciler.wire.sockets import split_address, tune

from . import sealed
from .door import STRANGER_SECONDS, Door, listen
from .sealed import Sealed

RETRY_SECONDS = 0.05
NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH)
"""Errors without any connection; a refused connection did reach the machine, and a time-out shows nothing."""
NO_ROUTE_SECONDS = 20.0
"""Longer than an interface needs to come up. A rank that says early why it cannot join is more useful than rank 0,
which only reports a missing rank at its own time-out."""


@dataclasses.dataclass(frozen=True)
class Peers:
    """The ranks that this one talks to: for rank 0 all others, for another rank 0."""

    connections: Mapping[int, Sealed]
    """By rank."""
    ring: tuple[int, ...]
    """The port at which each rank of the group accepts its neighbour in MLX's ring, in the order of ranks; 0 without
    one."""


def lead(config: RankConfig, mine: Join) -> Peers:
    """Wait for all other ranks and welcome them.

    Raises ``RankEnd``: ``PORT_IN_USE``, ``RENDEZVOUS`` when they do not come in time, ``UNEQUAL`` when they do
    not fit, ``CONFIG``.
    """
    with contextlib.ExitStack() as doors:
        listeners = [doors.enter_context(_listen(at)) for at in (config.control, *config.also_control)]
        context = sealed.accepting(config.secret)
        door = Door(listeners, lambda connection: _Guest(Sealed(connection, context, server=True)))
        doors.callback(door.close)
        joined = _wait(door, config)
    problem = _problem(mine, {rank: join for rank, (join, _) in joined.items()})
    ring = (mine.ring, *(joined[rank][0].ring for rank in sorted(joined)))
    welcome = encode(to_wire(Joined(problem, ring)))
    for _, connection in joined.values():
        with contextlib.suppress(OSError):  # a peer that has gone in the meantime is the watch's to notice
            connection.send(welcome)
    if problem:
        raise RankEnd(ExitCode.UNEQUAL, problem)
    return Peers({rank: connection for rank, (_, connection) in joined.items()}, ring)


def follow(config: RankConfig, mine: Join) -> Peers:
    """Join rank 0; returns once all ranks are there.

    Raises ``RankEnd``: ``RENDEZVOUS`` when it is not there in time, ``NO_ROUTE`` when there was no way to it all the
    time, or for ``NO_ROUTE_SECONDS`` on end, ``UNEQUAL`` when this rank does not fit, ``CONFIG``.
    """
    began = time.monotonic()
    deadline = began + config.rendezvous_seconds
    context = sealed.connecting(config.secret)
    failure, reachable_at, code = "no attempt", began, ExitCode.RENDEZVOUS
    while time.monotonic() < deadline:
        try:
            connection = _connect(split_address(config.control), deadline)
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
            return _join(Sealed(connection, context, server=False), mine, deadline)
        except (OSError, WireError) as error:
            failure = str(error)
        connection.close()
        time.sleep(RETRY_SECONDS)
    raise RankEnd(
        code,
        f"rank 0 did not welcome this rank at {config.control} within {time.monotonic() - began:.0f} s: {failure}",
    )


def broadcast(connections: Mapping[int, Sealed], message: object) -> None:
    """Send one message to every other rank, encoded once. Raises ``RankEnd(PEER_LOST)``."""
    if not connections:
        return
    frame = encode(to_wire(message, brief=True))
    for rank, connection in connections.items():
        try:
            connection.send(frame)
        except OSError as error:
            raise RankEnd(ExitCode.PEER_LOST, f"rank {rank} is gone: {error}") from None


def _connect(address: tuple[str, int], deadline: float) -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with contextlib.ExitStack() as failing:
        failing.callback(connection.close)
        tune(connection)
        connect(connection, address, deadline)
        failing.pop_all()
    return connection


def connect(connection: socket.socket, address: tuple[str, int], deadline: float) -> None:
    """Connect to another rank with a socket that waits until ``deadline`` from now on. Raises ``OSError``."""
    connection.settimeout(_seconds_left(deadline))
    connection.connect(address)
    if connection.getsockname() == connection.getpeername():
        # TCP connects a port of this host to itself when nobody listens and the port happens to be drawn.
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nothing listens there yet")
    connection.settimeout(_seconds_left(deadline))


def _join(connection: Sealed, mine: Join, deadline: float) -> Peers:
    """Say who this rank is, and wait for the welcome. Raises ``OSError``, ``WireError``, ``RankEnd(UNEQUAL)``."""
    connection.connection.settimeout(min(STRANGER_SECONDS, _seconds_left(deadline)))
    try:
        while not connection.shake_hands():
            connection.take()
    except ssl.SSLError as error:
        raise ConnectionError(f"what listens there is not rank 0 of this epoch ({error.reason})") from None
    connection.connection.settimeout(_seconds_left(deadline))
    connection.send(encode(to_wire(mine)))
    answer = decode(connection.next_frame(), FOLLOWER_RECEIVES)
    if not isinstance(answer, Joined):
        raise WireError(f"expected Joined, got {type(answer).__name__}")
    if answer.problem:
        raise RankEnd(ExitCode.UNEQUAL, answer.problem)
    connection.connection.settimeout(None)
    return Peers({0: connection}, answer.ring)


def _listen(address: str) -> socket.socket:
    try:
        return listen(*split_address(address))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        code = ExitCode.PORT_IN_USE if taken else ExitCode.RENDEZVOUS
        raise RankEnd(code, f"cannot listen for the other ranks on {address}: {error.strerror}") from None


def _seconds_left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _wait(door: Door[tuple[Join, Sealed]], config: RankConfig) -> dict[int, tuple[Join, Sealed]]:
    """Return all other ranks, by rank. Raises ``RankEnd(RENDEZVOUS)``."""
    joined: dict[int, tuple[Join, Sealed]] = {}
    for (join, secured), connection in door.admitted(time.monotonic() + config.rendezvous_seconds):
        if not 0 < join.rank < config.size:
            connection.close()
            continue
        if join.rank in joined:  # it lost its first connection and came again
            joined[join.rank][1].close()
        connection.setblocking(True)
        tune(connection)
        joined[join.rank] = (join, secured)
        if len(joined) == config.size - 1:
            return joined
    missing = [rank for rank in range(1, config.size) if rank not in joined]
    raise RankEnd(
        ExitCode.RENDEZVOUS,
        f"rank {', '.join(map(str, missing))} did not connect within {config.rendezvous_seconds:g} s",
    )


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


class _Guest:
    """A connection whose rank is not known yet: a handshake, and then a ``Join``."""

    def __init__(self, connection: Sealed) -> None:
        self._connection = connection
        self._shaken = False

    def take(self) -> int:
        return self._connection.take()

    def proof(self) -> tuple[Join, Sealed] | None:
        """Return what the rank says, with the connection to it."""
        self._shaken = self._shaken or self._connection.shake_hands()
        frames = self._connection.frames() if self._shaken else []
        if not frames:
            return None
        join = decode(frames[0], LEADER_RECEIVES)
        if not isinstance(join, Join):
            raise WireError(f"expected Join, got {type(join).__name__}")
        return join, self._connection
