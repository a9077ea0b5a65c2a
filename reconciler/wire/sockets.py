"""Sockets between the ranks of a group, with Python's own library alone: who is trusted, and when a peer is given up."""

from __future__ import annotations

import socket
import ssl
import tempfile
from typing import Tuple

DEAD_AFTER_SECONDS = 20
"""A peer that vanishes without closing its connection (power, cable) is given up after about this long."""


def trusting(secret: str, server: bool) -> ssl.SSLContext:
    """Return a context that trusts the group's certificate alone, at both ends.

    ``secret`` is the certificate with its private key, in PEM. Raises ``ValueError`` if it is not.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate stands for the group, wherever its ranks are
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        context.num_tickets = 0  # nobody resumes anything, and so nothing arrives that nobody waits for
    with tempfile.NamedTemporaryFile(
        "w", prefix="group-", suffix=".pem"
    ) as file:  # of mode 0600; ssl reads files alone
        file.write(secret)
        file.flush()
        try:
            context.load_cert_chain(file.name)
            context.load_verify_locations(file.name)
        except ssl.SSLError:
            raise ValueError("secret is not a certificate with its private key, in PEM") from None
    return context


def tune(connection: socket.socket) -> None:
    """Send small data at once, and notice a peer that vanishes."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))  # Linux, macOS
    if idle is not None:
        connection.setsockopt(socket.IPPROTO_TCP, idle, DEAD_AFTER_SECONDS // 2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, DEAD_AFTER_SECONDS // 4)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_SECONDS * 1000)


def split_address(text: str) -> Tuple[str, int]:
    """Split ``ip:port``; the text has passed ``read_config``."""
    host, _, port = text.rpartition(":")
    return host, int(port)
