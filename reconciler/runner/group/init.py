"""The common part of forming a group with any backend of MLX: a time limit, and a check of the result."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from reconciler.wire.launch import ExitCode, RankConfig, RankEnd

_INTERRUPTED = re.compile(rf"\(error: {errno.EINTR}\)|errno[= ]{errno.EINTR}\b")


@contextlib.contextmanager
def environment(
    prefix: str, content: object, paths: Sequence[str], others: Mapping[str, str | None]
) -> Iterator[None]:
    """Set variables for a while: ``paths`` to the path of a file with this content as JSON, and ``others``; None: unset."""
    descriptor, path = tempfile.mkstemp(prefix=prefix, suffix=".json")
    values = {**dict.fromkeys(paths, path), **others}
    try:
        os.write(descriptor, json.dumps(content).encode())
        os.close(descriptor)
        _set(values)
        yield
    finally:
        _set(dict.fromkeys(values))
        Path(path).unlink(missing_ok=True)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def interrupted(descriptors: Sequence[int], seconds: float) -> Iterator[None]:
    """Limit calls that hold the interpreter's lock: they fail with ``EINTR`` when data or an end arrives at one of
    ``descriptors``, and after ``seconds``.

    Signals that Python handles interrupt blocking system calls. Calls that ignore them, as in a wedged driver, are
    limited only by the controller's patience.
    """
    for number in (signal.SIGIO, signal.SIGALRM):
        signal.signal(number, lambda *_: None)
    flags = {descriptor: fcntl.fcntl(descriptor, fcntl.F_GETFL) for descriptor in descriptors}
    try:
        for descriptor, flag in flags.items():
            fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flag | os.O_ASYNC)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for descriptor, flag in flags.items():
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flag)
        for number in (signal.SIGIO, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)


def timed_out(text: str) -> bool:
    """Return whether an error of MLX comes from one of those signals."""
    return _INTERRUPTED.search(text) is not None


def checked(group: Any, config: RankConfig) -> Any:
    """Return the group, an ``mx.distributed.Group``. Raises ``RankEnd(WRONG_GROUP)`` if it is not that of
    ``config``."""
    formed, meant = (group.rank(), group.size()), (config.id.rank, config.size)
    if formed != meant:
        raise RankEnd(
            ExitCode.WRONG_GROUP,
            f"MLX made this rank {formed[0]} of a group of {formed[1]}, expected {meant[0]} of {meant[1]}",
        )
    return group


def call_the_roll(group: Any, config: RankConfig) -> None:
    """Run the first collective, which checks that every rank is at its place and that data arrives. Raises
    ``RankEnd(WRONG_GROUP)``."""
    numbers = mx.distributed.all_gather(mx.array([config.id.rank]), group=group)
    ranks = numbers.tolist()
    if ranks != list(range(config.size)):
        raise RankEnd(
            ExitCode.WRONG_GROUP, f"the ranks answered as {ranks}, expected {list(range(config.size))}"
        )
