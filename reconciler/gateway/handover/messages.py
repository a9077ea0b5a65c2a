"""Frames over a Unix socket between two gateways of one user. A frame may carry descriptors."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reconciler.wire.codec import Hello, WireError, agree, decode, to_wire
from reconciler.wire.frames import Decoder, encode
from reconciler.wire.handover import SPOKEN

SOCKET = "gateway.sock"
"""Its name in the home."""
HELLO_SECONDS = 2.0
"""The longest time for the first words of either side."""
READ_BYTES = 64 * 1024
_DESCRIPTORS_MAX = 4
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
"""Makes descriptors arrive closed to child processes; macOS has no such flag."""
_UCRED = struct.Struct("3i")
_XUCRED = struct.Struct("2I")
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1


class NotHandedOver(Exception):
    """The other gateway hands nothing over; the text says why."""


def user_of_peer(sock: socket.socket) -> int:
    """Return the user id of the process at the other end. Raises ``OSError``."""
    if sys.platform == "darwin":
        return int(_XUCRED.unpack(sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))[1])
    return int(_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1])


def same_user(sock: socket.socket) -> bool:
    """Return whether the process at the other end belongs to this one's user."""
    return user_of_peer(sock) == os.geteuid()


def hello(role: str) -> Hello:
    """Return the first words of a side."""
    return Hello(role, SPOKEN)


def check_hello(said: Any, role: str) -> None:
    """Raise ``WireError`` if these are not the first words of ``role``, or have no version that this side speaks."""
    if not isinstance(said, Hello) or said.role != role:
        raise WireError(f"expected the Hello of a {role}, got {type(said).__name__}")
    agree(SPOKEN, said.versions)


def listen(path: Path) -> socket.socket:
    """Return a listening socket at ``path``, for this user alone. It replaces an existing file. Raises
    ``OSError``."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        path.chmod(0o600)  # before ``listen``, so that nobody can connect yet
        sock.listen(4)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


class Blocking:
    """A side that blocks, for a given time at most."""

    def __init__(self, sock: socket.socket, known: dict[str, type]) -> None:
        self.sock = sock
        self.descriptors: list[int] = []
        """All descriptors that came."""
        self._known = known
        self.decoder = Decoder()
        self.come: list[dict[str, Any]] = []
        """Frames that were read but not requested yet."""

    def send(self, message: object) -> None:
        """Send a message. Raises ``OSError``."""
        self.sock.sendall(encode(to_wire(message)))

    def receive(self, seconds: float) -> Any:
        """Return the next message. Raises ``OSError`` if none comes in time or the connection is closed, and
        ``WireError``."""
        self.sock.settimeout(seconds)
        while not self.come:
            chunk, found, flags, _ = socket.recv_fds(self.sock, READ_BYTES, _DESCRIPTORS_MAX, _CLOSE_ON_EXEC)
            self._keep(found, flags)
            if not chunk:
                raise ConnectionResetError("the other gateway has closed the connection")
            self.come += self.decoder.feed(chunk)
        return decode(self.come.pop(0), self._known)

    def _keep(self, found: list[int], flags: int) -> None:
        if flags & socket.MSG_CTRUNC:
            for descriptor in found:
                os.close(descriptor)
            raise WireError("more descriptors were sent than this process can take")
        for descriptor in found:
            os.set_inheritable(descriptor, False)
        self.descriptors += found


class Waiting:
    """A side within an event loop, which continues meanwhile."""

    def __init__(self, sock: socket.socket, known: dict[str, type], before: Blocking | None = None) -> None:
        """``before`` used the socket until now, and may have read further messages."""
        self.sock = sock
        sock.setblocking(False)
        self._known = known
        self._loop = asyncio.get_running_loop()
        self._decoder = before.decoder if before is not None else Decoder()
        self._come: list[dict[str, Any]] = before.come if before is not None else []

    async def send(self, *messages: object) -> None:
        """Send messages. Raises ``OSError``."""
        await self._loop.sock_sendall(self.sock, b"".join(encode(to_wire(each)) for each in messages))

    async def send_with(self, descriptors: Sequence[int], message: object) -> None:
        """Send a message with descriptors, which come with its first bytes. Nothing may wait to be read. Raises ``OSError``."""
        frame = encode(to_wire(message))
        sent = socket.send_fds(self.sock, [frame], descriptors)
        await self._loop.sock_sendall(self.sock, frame[sent:])

    async def receive(self) -> Any:
        """Return the next message. Raises ``ConnectionResetError`` if the connection is closed, and ``WireError``."""
        while not self._come:
            chunk = await self._loop.sock_recv(self.sock, READ_BYTES)
            if not chunk:
                raise ConnectionResetError("the other gateway has closed the connection")
            self._come += self._decoder.feed(chunk)
        return decode(self._come.pop(0), self._known)
