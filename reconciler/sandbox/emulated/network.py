"""The network of an emulated Mac, as its ranks see it: this host's loopback, through relays of the sandbox."""

from __future__ import annotations

import _socket
import contextlib
import errno
import json
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .line import Line

LOOPBACK = "127.0.0.1"
WAIT_MICROSECONDS = 1000

Init = Callable[..., Any]


def patch(line: Line) -> None:
    """Make this process listen on loopback for any address, connect through the sandbox, and lose answers or requests
    on Unix sockets while it is mute."""
    bind, connect = socket.socket.bind, socket.socket.connect
    send, receive = socket.socket.send, socket.socket.recv

    def bound(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_INET:
            return bind(self, address)
        # One port at several addresses of the machine is one port of loopback.
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bind(self, (LOOPBACK, address[1]))
        _raise(line.ask("listen", port=self.getsockname()[1], chosen=address[1] == 0))
        return None

    def connected(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_INET:
            return connect(self, address)
        kept_alive = bool(self.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        answer = line.ask("way", host=address[0], port=address[1], kept_alive=kept_alive)
        _raise(answer)
        return connect(self, (LOOPBACK, answer["port"]))

    def fate(self: socket.socket) -> str:
        # Sockets that threads use to wake each other have no name; those that clients connect to have one.
        return line.mute if self.family == socket.AF_UNIX and self.getsockname() else ""

    def sent(self: socket.socket, content: Any, *flags: int) -> int:
        how = fate(self)
        if how == "broken":
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return len(content) if how == "silent" else send(self, content, *flags)

    def received(self: socket.socket, size: int, *flags: int) -> bytes:
        content = receive(self, size, *flags)
        if content and fate(self) == "deaf":
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return content

    replaced: Any = socket.socket
    replaced.bind, replaced.connect, replaced.send, replaced.recv = bound, connected, sent, received


def _raise(answer: dict[str, Any]) -> None:
    if "errno" in answer:
        number = getattr(errno, answer["errno"])
        raise OSError(number, os.strerror(number))


def joined(real: Init, rank: int, size: int, ports: tuple[int, int], strict: bool = True) -> Any:
    """Return MLX's ring of ranks. Each listens on one port and finds its right neighbour at another."""
    addresses = [[f"{LOOPBACK}:1"] for _ in range(size)]
    addresses[(rank + 1) % size] = [f"{LOOPBACK}:{ports[1]}"]
    addresses[rank] = [f"{LOOPBACK}:{ports[0]}"]
    before = _sockets()
    with _environment(addresses, rank):
        group = real(strict=strict, backend="ring")
    if sys.platform == "linux":
        for descriptor in _sockets() - before:
            _make_blocking(descriptor)
    return group


@contextlib.contextmanager
def _environment(addresses: list[list[str]], rank: int) -> Iterator[None]:
    names = ("MLX_HOSTFILE", "MLX_RANK")
    before = {name: os.environ.get(name) for name in names}
    descriptor, path = tempfile.mkstemp(prefix="emulated-", suffix=".json")
    os.write(descriptor, json.dumps(addresses).encode())
    os.close(descriptor)
    os.environ.update(MLX_HOSTFILE=path, MLX_RANK=str(rank))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        Path(path).unlink(missing_ok=True)


def meet_itself() -> None:
    """Make the two connections that MLX would make as this rank of the ring in ``MLX_HOSTFILE``, and use neither."""
    hosts = json.loads(Path(os.environ["MLX_HOSTFILE"]).read_text(encoding="utf-8"))
    rank = int(os.environ["MLX_RANK"])
    here, there = (
        (host, int(port)) for host, port in (hosts[at % len(hosts)][0].split(":") for at in (rank, rank + 1))
    )
    listener: Any = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    with contextlib.closing(listener):
        listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        listener.bind(here)
        listener.listen(1)
        listener._accept()  # the descriptor stays open
    right = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    right.connect(there)
    right.detach()


def _sockets() -> set[int]:
    found = set()
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is gone by now
            if stat.S_ISSOCK(os.fstat(int(entry.name)).st_mode):
                found.add(int(entry.name))
    return found


def _make_blocking(descriptor: int) -> None:
    """Make a socket blocking: emulated Macs share the cores of one host, so waiting must not use them."""
    connection = socket.socket(fileno=os.dup(descriptor))
    with connection:
        wait = struct.pack("ll", 0, WAIT_MICROSECONDS)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    os.set_blocking(descriptor, True)
