"""MLX's collectives over TCP: the strict start of a group on the ``ring`` backend."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from reconciler.runner.model.mlx_errors import meaning
from reconciler.runner.process.ending import RankEnd
from reconciler.wire.launch import ExitCode, RankConfig

from .init import checked, interrupted, timed_out

WAIT_MICROSECONDS = 1000
"""How long a socket of the group waits in the kernel before MLX's thread checks again."""
NOTICE_SECONDS = 0.3
HEAD_START_SECONDS = 0.05
"""Head start of the listeners: the last rank connects first, and all others listen first (``ring.cpp``). A connection
that comes too early is repeated only after a second. All ranks are released at the same moment, so the last one waits a
little."""


def init_ring(config: RankConfig, peers: Sequence[socket.socket], shim: int) -> Any:
    """The group, an ``mx.distributed.Group`` of exactly ``config.size`` ranks.

    ``init`` holds the interpreter's lock while it waits for its neighbours, without a bound of its own.
    So signals end that wait: the kernel's own when ``peers`` or ``shim`` end, an alarm after
    ``rendezvous_seconds``. Raises ``RankEnd`` with what MLX's error means, ``RENDEZVOUS`` where nothing is
    known of it, or ``WRONG_GROUP``.
    """
    before = _sockets()
    if config.id.rank == config.size - 1:
        time.sleep(HEAD_START_SECONDS)
    try:
        with (
            _environment(config),
            interrupted([c.fileno() for c in peers] + [shim], config.rendezvous_seconds),
        ):
            group = mx.distributed.init(strict=True, backend="ring")
    except RuntimeError as error:
        time.sleep(NOTICE_SECONDS)  # where a peer's end was the cause, the watch ends this rank now
        raise _failure(str(error), config) from None
    checked(group, config)
    if sys.platform == "linux":
        for descriptor in _sockets() - before:
            _make_blocking(descriptor)
    return group


def _failure(text: str, config: RankConfig) -> RankEnd:
    if timed_out(text):
        wait = f"{config.rendezvous_seconds:g} s"
        return RankEnd(ExitCode.RENDEZVOUS, f"the other ranks did not connect MLX's ring within {wait}")
    code = meaning(text)
    return RankEnd(
        ExitCode.RENDEZVOUS if code is None else code,
        f"MLX could not form the ring on {config.addresses[config.id.rank]}: {text}",
    )


def _make_blocking(descriptor: int) -> None:
    """Let MLX's thread wait in the kernel instead of polling a non-blocking socket.

    MLX's ring polls its sockets as fast as it can, which starves the computation if ranks share cores. A blocking
    socket with a time-out gives the same results (``EAGAIN`` without data).
    """
    connection = socket.socket(fileno=os.dup(descriptor))
    with connection:
        wait = struct.pack("ll", 0, WAIT_MICROSECONDS)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    os.set_blocking(descriptor, True)


def _sockets() -> set[int]:
    found = set()
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is gone by now
            if stat.S_ISSOCK(os.fstat(int(entry.name)).st_mode):
                found.add(int(entry.name))
    return found


@contextlib.contextmanager
def _environment(config: RankConfig) -> Iterator[None]:
    """Set the file from which MLX takes the ring's addresses."""
    descriptor, path = tempfile.mkstemp(prefix="ring-", suffix=".json")
    try:
        os.write(descriptor, json.dumps([[address] for address in config.addresses]).encode())
        os.close(descriptor)
        os.environ["MLX_HOSTFILE"] = path
        os.environ["MLX_RANK"] = str(config.id.rank)
        yield
    finally:
        os.environ.pop("MLX_HOSTFILE", None)
        os.environ.pop("MLX_RANK", None)
        Path(path).unlink(missing_ok=True)
