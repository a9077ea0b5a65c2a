"""Addresses that clients of the gateway and browsers connect to: loopback, and with keys any."""

from __future__ import annotations

import errno
import ipaddress
import socket

from reconciler.errors import Conflict, Invalid

PORTS_TRIED = 50
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
SEND_BUFFER_BYTES = 64 * 1024
"""What the system buffers of an answer that is not read. Left to itself, it takes megabytes for each connection, and
nobody can tell a client that reads nothing from one that does. Accepted sockets have it from the listening one."""


def parse_listen(listen: str, keys: bool, field: str = "listen") -> tuple[str, int]:
    """Return address and port of ``127.0.0.1:8400``, ``localhost:8400`` or ``[::1]:8400``.

    ``field``: where the Gateway's spec has it. Raises ``Invalid`` for what is no address, and for any other address without
    ``keys``: only this machine may connect then.
    """
    host, _, port = listen.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
        number = int(port)
    except ValueError:
        raise Invalid(
            f'cannot listen on {listen!r}: expected "address:port" such as "127.0.0.1:8400"; '
            f"correct `{field}` in the Gateway's spec"
        ) from None
    if not loopback and not keys:
        raise Invalid(
            f"refusing to listen on {listen}: there is no authentication, so only loopback addresses are safe; "
            f'set `{field}` in the Gateway\'s spec to "127.0.0.1:{port}", or `auth.mode` to "keys"'
        )
    if not 1 <= number <= 65535:
        raise Invalid(f"cannot listen on {listen!r}: expected a port from 1 to 65535")
    return host, number


def bind(listen: str, keys: bool, any_port: bool, field: str = "listen") -> socket.socket:
    """Return a listening socket; with ``any_port`` on the first free port of 50, counted from the one in ``listen``.
    ``keys``: whether clients need keys. ``field``: where the Gateway's spec has the address.

    Raises ``Invalid`` for a wrong address and ``Conflict`` for one that is taken.
    """
    host, port = parse_listen(listen, keys, field)
    last = min(port + PORTS_TRIED - 1, 65535) if any_port else port
    for candidate in range(port, last + 1):
        try:
            return _bound(host, candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            raise Invalid(f"cannot listen on {listen}: {error.strerror or error}") from None
    tried = f"{listen} is" if last == port else f"all ports from {listen} to {last} are"
    raise Conflict(
        f"cannot listen: {tried} taken by another process; stop that process, or choose another port for "
        f"`{field}` in the Gateway's spec"
    )


def address_of(sock: socket.socket) -> str:
    """Return the address of a socket as a URL has it: ``127.0.0.1:8400``."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reached_at(address: str) -> str:
    """Return where programs of this machine connect to, for an address that may stand for all of the machine's."""
    host, _, port = address.rpartition(":")
    return f"{_LOOPBACK.get(host, host)}:{port}"


def _bound(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        sock.bind((host, port))
        sock.listen(2048)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
