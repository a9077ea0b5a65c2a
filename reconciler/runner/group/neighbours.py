"""The connections of MLX's ring, made by the ranks themselves, because MLX trusts the first client that connects.

Each rank accepts the one before it and connects to the one after it. Both show that they know the group's secret,
without sending it: each answers the other's random bytes. Later data is MLX's own and not encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from reconciler.wire.codec import WireError
from reconciler.wire.launch import ExitCode, RankConfig, RankEnd
from reconciler.wire.sockets import split_address

from .control_channel import RETRY_SECONDS, connect
from .door import Door, listen

NONCE_BYTES = 32
PROOF_BYTES = hashlib.sha256().digest_size
PURPOSE = "a neighbour in MLX's ring"


@contextlib.contextmanager
def listening(config: RankConfig) -> Iterator[socket.socket]:
    """Listen for the neighbour at this rank's address, at a port that the kernel chooses. Raises
    ``RankEnd(RENDEZVOUS)``."""
    host, _ = split_address(config.addresses[config.id.rank])
    try:
        listener = listen(host, 0)
    except OSError as error:
        raise RankEnd(
            ExitCode.RENDEZVOUS, f"cannot listen for a neighbour on {host}: {error.strerror}"
        ) from None
    with listener:
        yield listener


def meet(
    config: RankConfig, listener: socket.socket, ring: tuple[int, ...]
) -> tuple[socket.socket, socket.socket]:
    """Return the connections to the rank before and to the rank after this one; both block. ``ring``: the ports at which
    the ranks listen, in order. Raises ``RankEnd(RENDEZVOUS)``.

    The last rank connects first, and every other rank accepts first, so they meet one after the other.
    """
    rank, size = config.id.rank, config.size
    deadline = time.monotonic() + config.rendezvous_seconds
    secret = config.secret.encode("utf-8", "surrogatepass")
    before, after = (rank - 1) % size, (rank + 1) % size
    host, _ = split_address(config.addresses[after])

    def reach() -> socket.socket:
        return _reach(_Bond(secret, rank, after), (host, ring[after]), deadline)

    if rank == size - 1:
        right = reach()
        return _admit(_Bond(secret, before, rank), listener, deadline), right
    left = _admit(_Bond(secret, before, rank), listener, deadline)
    return left, reach()


@dataclass(frozen=True)
class _Bond:
    """Two neighbours: the rank that connects and the one that accepts."""

    secret: bytes = field(repr=False)
    connects: int
    accepts: int

    def proof(self, role: str, nonces: bytes) -> bytes:
        """Return the answer that only a member can give. ``nonces``: of the one that connects, then of the one that
        accepts."""
        said = f"{PURPOSE}: {role} {self.connects} {self.accepts} ".encode()
        return hmac.new(self.secret, said + nonces, hashlib.sha256).digest()


def _reach(bond: _Bond, address: tuple[str, int], deadline: float) -> socket.socket:
    failure = "no attempt"
    while time.monotonic() < deadline:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connect(connection, address, deadline)
            _introduce(bond, connection)
            connection.settimeout(None)
            return connection
        except (OSError, WireError) as error:
            failure = str(error)
        connection.close()
        time.sleep(RETRY_SECONDS)
    raise RankEnd(
        ExitCode.RENDEZVOUS, f"rank {bond.accepts} did not accept this rank as its neighbour: {failure}"
    )


def _introduce(bond: _Bond, connection: socket.socket) -> None:
    mine = os.urandom(NONCE_BYTES)
    connection.sendall(mine)
    answer = _exactly(connection, NONCE_BYTES + PROOF_BYTES)
    nonces = mine + answer[:NONCE_BYTES]
    if not hmac.compare_digest(answer[NONCE_BYTES:], bond.proof("accepts", nonces)):
        raise WireError("what listens there is not that rank of this epoch")
    connection.sendall(bond.proof("connects", nonces))


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        chunk = connection.recv(count - len(found))
        if not chunk:
            raise ConnectionError("the connection was closed")
        found += chunk
    return found


def _admit(bond: _Bond, listener: socket.socket, deadline: float) -> socket.socket:
    door = Door([listener], lambda connection: _Guest(bond, connection))
    with contextlib.closing(door):
        for _, connection in door.admitted(deadline):
            connection.setblocking(True)
            return connection
    raise RankEnd(ExitCode.RENDEZVOUS, f"rank {bond.connects} did not connect to this rank in MLX's ring")


class _Guest:
    """A possible neighbour: it sends random bytes, and then its answer to ours."""

    def __init__(self, bond: _Bond, connection: socket.socket) -> None:
        self._bond = bond
        self._connection = connection
        self._said = b""
        self._nonces = b""

    def take(self) -> int:
        wanted = NONCE_BYTES + PROOF_BYTES - len(self._said)
        chunk = self._connection.recv(wanted)  # nothing that is MLX's already
        if not chunk:
            raise ConnectionError("the connection was closed")
        self._said += chunk
        return len(chunk)

    def proof(self) -> bool | None:
        """Return True for the neighbour."""
        if len(self._said) >= NONCE_BYTES and not self._nonces:
            mine = os.urandom(NONCE_BYTES)
            self._nonces = self._said[:NONCE_BYTES] + mine
            self._connection.sendall(mine + self._bond.proof("accepts", self._nonces))
        if len(self._said) < NONCE_BYTES + PROOF_BYTES:
            return None
        if not hmac.compare_digest(self._said[NONCE_BYTES:], self._bond.proof("connects", self._nonces)):
            raise WireError("not this rank's neighbour")
        return True
