"""What forming a group has in common over all backends of MLX: a bound on its waits, and what came of it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
from collections.abc import Iterator, Sequence
from typing import Any

from reconciler.runner.process.ending import RankEnd
from reconciler.wire.launch import ExitCode, RankConfig

_INTERRUPTED = re.compile(rf"\(error: {errno.EINTR}\)|errno[= ]{errno.EINTR}\b")


@contextlib.contextmanager
def interrupted(descriptors: Sequence[int], seconds: float) -> Iterator[None]:
    """A bound on calls that hold the interpreter's lock: they fail with ``EINTR`` when something comes in, or an end
    does, at one of ``descriptors``, and after ``seconds``.

    Signals that Python handles make what blocks in the kernel fail. Of a call that never looks at them, as of a
    driver that is wedged, only the controller's patience is the bound.
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
    """Whether an error of MLX says that one of those signals has ended what it did."""
    return _INTERRUPTED.search(text) is not None


def checked(group: Any, config: RankConfig) -> Any:
    """The group, an ``mx.distributed.Group``. Raises ``RankEnd(WRONG_GROUP)`` where it is not that of ``config``."""
    formed, meant = (group.rank(), group.size()), (config.id.rank, config.size)
    if formed != meant:
        raise RankEnd(
            ExitCode.WRONG_GROUP,
            f"MLX made this rank {formed[0]} of a group of {formed[1]}, expected {meant[0]} of {meant[1]}",
        )
    return group
