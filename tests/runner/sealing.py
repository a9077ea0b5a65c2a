"""Sealed connections as ranks have them, between ends that a test holds."""

from __future__ import annotations

import socket
import time

from reconciler.planning.context.membership import certificate
from reconciler.runner.group.sealed import Sealed, accepting, connecting
from reconciler.wire.sockets import split_address

SECRET = certificate("of a group")


def sealed_pair() -> tuple[Sealed, Sealed]:
    """Two ends of one connection, which have shaken hands; the first one has accepted it."""
    ours, theirs = socket.socketpair()
    server, client = Sealed(ours, accepting(SECRET), True), Sealed(theirs, connecting(SECRET), False)
    client.shake_hands()
    server.take()
    server.shake_hands()
    client.take()
    assert client.shake_hands()
    server.take()
    assert server.shake_hands()
    return server, client


def call(address: str, seconds: float = 90.0) -> socket.socket:
    """Connect as soon as somebody listens there."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(split_address(address), timeout=60.0)
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens on {address}"
            time.sleep(0.05)


def sealed_call(address: str, secret: str) -> Sealed:
    """Connect as a rank with this secret does, and shake hands. Raises ``OSError`` where that fails."""
    connection = Sealed(call(address), connecting(secret), server=False)
    while not connection.shake_hands():
        connection.take()
    return connection
