"""The connection between two gateways of one user: messages over a Unix socket, with descriptors."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from reconciler.wire.codec import Hello, WireError, agree, decode, to_wire
from reconciler.wire.frames import Decoder, encode
from reconciler.wire.handover import SPOKEN

SOCKET = "gateway.sock"
"""Its name in the home."""
HELLO_SECONDS = 2.0
"""The longest time for the first message of either side."""
READ_BYTES = 64 * 1024
_DESCRIPTORS_MAX = 4
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
"""Makes descriptors arrive closed to child processes; macOS has no such flag."""
_UCRED = struct.Struct("3i")
_XUCRED = struct.Struct("2I")
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1
M = TypeVar("M")


def user_of_peer(sock: socket.socket) -> int:
    """Return the user id of the process at the other end. Raises ``OSError``."""
    if sys.platform == "darwin":
        return int(_XUCRED.unpack(sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))[1])
    return int(_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1])


def listening_at(path: Path) -> socket.socket:
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


class Channel:
    """One side of the connection. It has ``sock`` and every descriptor that comes, until ``close``."""

    def __init__(self, sock: socket.socket, known: dict[str, type]) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.descriptors: list[int] = []
        """Descriptors that have come and that nobody has taken."""
        self._known = known
        self._loop = asyncio.get_running_loop()
        self._decoder = Decoder()
        self._come: list[dict[str, Any]] = []

    async def send(self, *messages: object, descriptors: Sequence[int] = ()) -> None:
        """Send messages; the descriptors come with the first bytes, and nothing may wait to be read then. Raises
        ``OSError``."""
        frames = b"".join(encode(to_wire(each)) for each in messages)
        sent = socket.send_fds(self.sock, [frames], descriptors) if descriptors else 0
        await self._loop.sock_sendall(self.sock, frames[sent:])

    async def greet(self, own: str, other: str, first: bool) -> None:
        """Exchange the first messages. Raises ``WireError`` if the other side belongs to another user, is not
        ``other``, or speaks no version that this side does."""
        if user_of_peer(self.sock) != os.geteuid():
            raise WireError("the other side belongs to another user")
        async with asyncio.timeout(HELLO_SECONDS):
            if first:
                await self.send(Hello(own, SPOKEN))
            said = await self.receive(Hello)
            if not first:
                await self.send(Hello(own, SPOKEN))
        if said.role != other:
            raise WireError(f"expected the Hello of a {other}, got that of a {said.role}")
        agree(SPOKEN, said.versions)

    async def receive(self, *kinds: type[M]) -> M:
        """Return the next message. Raises ``OSError`` if the connection is closed, and ``WireError`` if the message is
        none of ``kinds``."""
        while not self._come:
            await self._readable()
            chunk, found, flags, _ = socket.recv_fds(self.sock, READ_BYTES, _DESCRIPTORS_MAX, _CLOSE_ON_EXEC)
            self.descriptors += found
            if flags & socket.MSG_CTRUNC:
                raise WireError("more descriptors were sent than this process can take")
            for descriptor in found:
                os.set_inheritable(descriptor, False)
            if not chunk:
                raise ConnectionResetError("the other gateway has closed the connection")
            self._come += self._decoder.feed(chunk)
        said = decode(self._come.pop(0), self._known)
        if not isinstance(said, kinds):
            raise WireError(f"unexpected {type(said).__name__}")
        return said

    async def _readable(self) -> None:
        readable = asyncio.Event()
        self._loop.add_reader(self.sock, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(self.sock)

    def close(self) -> None:
        self.sock.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()
