"""Addresses for clients of the gateway and for browsers: loopback, and with keys any address. And the names by which
they may call this machine."""

from __future__ import annotations

import contextlib
import errno
import functools
import ipaddress
import plistlib
import re
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

from reconciler.errors import Conflict, Invalid

PORTS_TRIED = 50
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
SEND_BUFFER_BYTES = 64 * 1024
"""Buffer of the system for an unread answer. By default it takes megabytes for each connection, and a client that reads
nothing cannot be distinguished from one that does. Accepted sockets inherit the size from the listening one."""

LOOPBACK_NAMES = frozenset(
    {
        "ip6-localhost",
        "ip6-loopback",
        "localhost.localdomain",
        "localhost4",
        "localhost4.localdomain4",
        "localhost6",
        "localhost6.localdomain6",
    }
)
"""Further names of loopback that Linux distributions write into ``/etc/hosts``. None is a name of the public DNS."""
_CONTAINER_NAME = re.compile(
    r"(?:(?:host|gateway)(?:\.[a-z0-9-]+)?|(?:docker|kubernetes|vm)\.(?:docker|orb)"
    r"|docker\.for\.(?:mac|win)\.(?:host|gateway))\.internal|host\.crc\.testing"
)
"""Names of the machine itself within its containers and virtual machines: ``host.docker.internal``, and similar names
of Podman, Apple's container, Lima and Colima, OrbStack, Rancher Desktop, minikube, k3d, Testcontainers and OpenShift
Local. No owner of a web page can point them anywhere: ``internal`` is in no public DNS (ICANN, 2024), and ``testing``
is no top-level domain."""
_MAC_NAMES = Path("/Library/Preferences/SystemConfiguration/preferences.plist")
"""The file in which macOS keeps the names that its owner gave the machine."""


def host_in(authority: str) -> str:
    """Return the host of a header ``Host`` or of an origin, as in ``localhost:8400`` and ``http://[::1]:8400``; empty
    if there is none. It is in lower case, without port, brackets and final dot."""
    try:
        return (urlsplit(authority if "//" in authority else f"//{authority}").hostname or "").removesuffix(
            "."
        )
    except ValueError:
        return ""


def is_local(host: str) -> bool:
    """Return whether a host, as ``host_in`` gives it, is an address or name of this machine that no foreign name server
    can point anywhere: loopback, names of container tools, and its own names."""
    if host == "localhost" or host.endswith(".localhost"):  # resolved by the machine itself (RFC 6761)
        return True
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        address = getattr(address, "ipv4_mapped", None) or address
        return (
            address.is_loopback or address.is_unspecified
        )  # systems connect to an unspecified address by loopback
    return (
        host in LOOPBACK_NAMES
        or _CONTAINER_NAME.fullmatch(host) is not None
        or host in own_names(socket.gethostname())
    )


def is_address(host: str) -> bool:
    """Return whether a host, as ``host_in`` gives it, is an IP address: no name server can point it anywhere."""
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


@functools.lru_cache(maxsize=8)
def own_names(hostname: str, platform: str = sys.platform, names: Path = _MAC_NAMES) -> frozenset[str]:
    """Return the names of this machine, in lower case: its host name, and its name in multicast DNS.

    macOS takes its host name from its network, unless its owner has set one. On a Mac, a name with a domain is
    therefore believed only if it is in ``names``.
    """
    given, mac = hostname.lower().removesuffix("."), platform == "darwin"
    found = {given.partition(".")[0]}
    if not mac or given.endswith(".local"):
        found.add(given)
    if mac:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            system = plistlib.loads(names.read_bytes())["System"]
            found |= {
                name.lower()
                for name in (
                    system["Network"]["HostNames"].get("LocalHostName"),
                    system["System"].get("HostName"),
                )
                if name
            }
    found |= {f"{name}.local" for name in found if "." not in name}
    return frozenset(found - {"", ".local"})


def parse_listen(listen: str, keys: bool, field: str = "listen") -> tuple[str, int]:
    """Return address and port of ``127.0.0.1:8400``, ``localhost:8400`` or ``[::1]:8400``.

    ``field``: the place in the Gateway's spec. Raises ``Invalid`` if it is no address, and without ``keys``, when only
    this machine may connect, if it is no loopback address.
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
    """Return a listening socket; with ``any_port``, on the first free port of 50, counted from the one in ``listen``.
    ``keys``: whether clients need keys. ``field``: the place of the address in the Gateway's spec.

    Raises ``Invalid`` for a wrong address and ``Conflict`` for a taken one.
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
    """Return the address to which programs of this machine connect, for one that may stand for all of its addresses."""
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
