"""MLX's collectives over TCP: the strict start of a group on the ``ring`` backend.

MLX's ring has no authentication, and waits for its neighbours without a limit. So the ranks connect to each other
themselves (``neighbours.py``). MLX then forms its ring with sockets of this process alone, on loopback, and the
neighbours' connections are put in their place. This also cuts off any stranger that has connected to MLX on loopback.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx

from reconciler.runner.model.mlx_errors import meaning
from reconciler.wire.launch import ExitCode, RankConfig, RankEnd

from .init import call_the_roll, checked, environment, interrupted, timed_out

WAIT_MICROSECONDS = 1000
"""Time that a socket of the group waits in the kernel before MLX's thread checks again."""
SMALL_BYTES_MAX = 256 * 1024
"""MLX divides larger arrays between both of its connections."""
LOOPBACK = "127.0.0.1"
ATTEMPTS_MAX = 3
"""Attempts to form the ring with ourselves: somebody may take the port before MLX does."""
LOOPBACK_SECONDS = 20
"""Bound on forming the ring with ourselves, which takes some milliseconds."""
_KNOCK = """
import _socket, posix, sys, time
host, port, rank, seconds = sys.argv[1], *map(int, sys.argv[2:])
end = time.monotonic() + seconds
while time.monotonic() < end and posix.getppid() == rank:
    knocking = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        knocking.connect((host, port))
        break
    except OSError:
        knocking.close()
        time.sleep(0.001)
"""
"""Connects once to where MLX will listen. A process of its own, because MLX holds the interpreter's lock while it
accepts; and started by ``posix_spawn``, because a fork of a process that uses Metal is not safe."""
_all_sum = mx.distributed.all_sum


def init_ring(config: RankConfig, left: socket.socket, right: socket.socket, shim: int) -> Any:
    """The group, an ``mx.distributed.Group`` of exactly ``config.size`` ranks, that talks over the connections to the
    ranks before and after this one. They are MLX's from now on.

    Raises ``RankEnd`` with what MLX's error means, ``RENDEZVOUS`` where nothing is known of it, or ``WRONG_GROUP``.
    """
    before = _sockets()
    with socket.create_server(
        (LOOPBACK, 0)
    ) as connects:  # MLX connects to it; nothing is ever accepted there
        group = _formed(config, connects, shim)
        checked(group, config)
        made = _sockets() - before - {connects.fileno()}
        _replace(made, connects.getsockname(), left, right)
    call_the_roll(group, config)
    exchange_once(group)
    return group


def _formed(config: RankConfig, connects: socket.socket, shim: int) -> Any:
    """Let MLX form its ring with this process alone. Raises ``RankEnd``."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        listens = _free_address()
        try:
            with (
                _environment(config, listens, connects),
                _knocking(listens),
                interrupted([shim], LOOPBACK_SECONDS),
            ):
                return mx.distributed.init(strict=True, backend="ring")
        except RuntimeError as error:
            end = _failure(str(error))
            if end.code != ExitCode.PORT_IN_USE or attempt == ATTEMPTS_MAX:
                raise end from None
    raise AssertionError("the last attempt returns or raises")


def _failure(text: str) -> RankEnd:
    if timed_out(text):
        return RankEnd(
            ExitCode.RENDEZVOUS, f"MLX did not form its ring with itself within {LOOPBACK_SECONDS} s"
        )
    code = meaning(text)
    return RankEnd(
        ExitCode.RENDEZVOUS if code is None else code, f"MLX could not form its ring with itself: {text}"
    )


def _replace(made: set[int], connected: Any, left: socket.socket, right: socket.socket) -> None:
    """Put the neighbours' connections in the place of those that MLX has made, of which the right one leads to the
    address ``connected``."""
    rights = {descriptor for descriptor in made if _peer(descriptor) == connected}
    lefts = made - rights
    if len(rights) != 1 or len(lefts) != 1:
        raise RankEnd(
            ExitCode.WRONG_GROUP,
            f"MLX's ring has {len(lefts)} connections to the left and {len(rights)} to the right, expected one each",
        )
    for descriptor, connection in ((lefts.pop(), left), (rights.pop(), right)):
        _prepare(connection)
        os.dup2(connection.fileno(), descriptor, inheritable=False)
        connection.close()


def _peer(descriptor: int) -> Any:
    """Return the address that a socket is connected to; None where the other end is gone."""
    with socket.socket(fileno=os.dup(descriptor)) as connection, contextlib.suppress(OSError):
        return connection.getpeername()
    return None


def _prepare(connection: socket.socket) -> None:
    """Make a connection what MLX's thread expects: never blocking, or on Linux for a moment only.

    MLX's ring polls its sockets as fast as it can, which starves the computation if ranks share cores. A blocking
    socket with a time-out gives the same results (``EAGAIN`` without data).
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        wait = struct.pack("ll", 0, WAIT_MICROSECONDS)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    connection.setblocking(sys.platform == "linux")


def _sockets() -> set[int]:
    found = set()
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is gone by now
            if stat.S_ISSOCK(os.fstat(int(entry.name)).st_mode):
                found.add(int(entry.name))
    return found


def _free_address() -> tuple[str, int]:
    """Return an address of loopback at which nobody listens. It is not reserved until MLX listens
    there: if two sockets share a port, macOS may give a connection to the socket that does not listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as free:
        free.bind((LOOPBACK, 0))
        host, port = free.getsockname()
        return str(host), int(port)


@contextlib.contextmanager
def _knocking(listens: tuple[str, int]) -> Iterator[None]:
    """Let another process connect to where MLX listens; it is gone afterwards."""
    host, port = listens
    numbers = (port, os.getpid(), LOOPBACK_SECONDS)
    arguments = [sys.executable, "-I", "-S", "-c", _KNOCK, host, *map(str, numbers)]
    nothing = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in range(3)]
    pid = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=nothing)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)  # a stranger may have come first, and nobody listens any more
        os.waitpid(pid, 0)


def _environment(
    config: RankConfig, listens: tuple[str, int], connects: socket.socket
) -> contextlib.AbstractContextManager[None]:
    """Set the file from which MLX takes the ring's addresses: this rank's is ``listens``, all others' is ``connects``."""
    addresses = [[f"{LOOPBACK}:{connects.getsockname()[1]}"] for _ in range(config.size)]
    addresses[config.id.rank] = [f"{LOOPBACK}:{listens[1]}"]
    return environment("ring-", addresses, ("MLX_HOSTFILE",), {"MLX_RANK": str(config.id.rank)})


def exchange_once(ring: Any) -> None:
    """Let this process sum small arrays over ``ring``, an ``mx.distributed.Group``, in one exchange if it has two ranks,
    where MLX takes two.

    MLX first adds halves up and then passes them around, which saves bytes from three ranks on; two ranks send as many bytes
    either way (``mlx/distributed/ring/ring.cpp``). A step of a model has two sums in each layer, and on a small array a sum
    takes as long as its exchanges do. Models look the function up at each call. The sum has the same bits on both ranks, and the same as MLX's: there are
    only two numbers to add.
    """

    def all_sum(array: Any, *, group: Any = None, stream: Any = None) -> Any:
        if group is not ring or array.ndim == 0 or array.nbytes > SMALL_BYTES_MAX:
            return _all_sum(array, group=group, stream=stream)
        both = mx.distributed.all_gather(array, group=group, stream=stream)
        return both[: array.shape[0]] + both[array.shape[0] :]

    distributed: Any = mx.distributed
    distributed.all_sum = all_sum if ring.size() == 2 else _all_sum
