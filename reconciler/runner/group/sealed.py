"""Sealed connections: TLS 1.3 between ranks, each of which shows that it has the group's certificate and its key.

The certificate is made for one epoch, and no other is trusted. So a peer that completes a handshake is a rank of this
group. OpenSSL works on memory here, and the socket stays outside: two threads must not use its objects at the same
time, and the main thread sends while the watch's thread receives.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import Any

from reconciler.wire.frames import Decoder
from reconciler.wire.launch import ExitCode, RankEnd
from reconciler.wire.sockets import trusting

RECEIVE_BYTES = 1 << 16


def accepting(secret: str) -> ssl.SSLContext:
    """Return the context for connections that this rank accepts. ``secret`` is that of ``RankConfig``. Raises
    ``RankEnd(CONFIG)``."""
    return _context(secret, server=True)


def connecting(secret: str) -> ssl.SSLContext:
    """Return the context for connections that this rank opens. Raises ``RankEnd(CONFIG)``."""
    return _context(secret, server=False)


def _context(secret: str, server: bool) -> ssl.SSLContext:
    try:
        return trusting(secret, server)
    except ValueError as error:
        raise RankEnd(ExitCode.CONFIG, str(error)) from None


class Sealed:
    """One connection, with the frames that come over it. One thread may send while another receives."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, server: bool) -> None:
        """Nothing is sent or received yet. ``server``: whether this rank has accepted the connection."""
        self.connection = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._using = threading.Lock()
        self._sending = threading.Lock()
        self._decoder = Decoder()
        self._frames: list[dict[str, Any]] = []

    def fileno(self) -> int:
        return self.connection.fileno()

    def shake_hands(self) -> bool:
        """Continue the handshake as far as data has arrived; return whether it is complete. Raises ``OSError``."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            with contextlib.suppress(OSError):  # the peer's end or ours is what counts
                self.connection.sendall(self._outgoing.read())
        return True

    def take(self) -> int:
        """Take what the socket has, or wait as long as the socket does; return the number of bytes. Raises ``OSError``,
        also at the connection's end."""
        chunk = self.connection.recv(RECEIVE_BYTES)
        if not chunk:
            raise ConnectionError("the connection was closed")
        with self._using:
            self._incoming.write(chunk)
        return len(chunk)

    def frames(self) -> list[dict[str, Any]]:
        """Return the frames that are complete and were not returned before. Raises ``OSError`` and ``WireError``."""
        for chunk in iter(self._decrypted, b""):
            self._frames += self._decoder.feed(chunk)
        found, self._frames = self._frames, []
        return found

    def next_frame(self) -> dict[str, Any]:
        """Wait for one frame, as long as the socket waits; keep those that came with it. Raises ``OSError`` and
        ``WireError``."""
        while not (found := self.frames()):
            self.take()
        self._frames = found[1:]
        return found[0]

    def send(self, data: bytes) -> None:
        """Send bytes; the socket is blocking. Raises ``OSError``."""
        with self._sending:
            with self._using:
                self._tls.write(data)
                sealed = self._outgoing.read()
            self.connection.sendall(sealed)

    def close(self) -> None:
        self.connection.close()

    def _decrypted(self) -> bytes:
        """Return some of what has arrived; empty where there is nothing more."""
        with self._using:
            try:
                return self._tls.read(RECEIVE_BYTES)
            except ssl.SSLWantReadError:
                return b""
