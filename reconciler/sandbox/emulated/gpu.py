"""The GPU of an emulated Mac, and all other causes that make its work fail or stand still, at ``mx.eval``."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from .line import Line

BROKEN_SECONDS = 2.5
"""Time until broken queue pairs are noticed; by then, the agent has reported their idle time."""


def patch(mx: Any, line: Line) -> None:
    """Make every evaluation check the machine's faults first."""
    feel = functools.partial(_feel, line, os.environ.get("RECONCILER_RANK_CONFIG") is not None)
    for name in ("eval", "async_eval", "synchronize"):
        setattr(mx, name, _felt(getattr(mx, name), feel))
    told = mx.device_info
    mx.device_info = lambda *device: {
        **told(*device),
        "max_recommended_working_set_size": line.hello["working_set"],
    }


def _felt(work: Callable[..., Any], feel: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(work)
    def felt(*args: Any, **kwargs: Any) -> Any:
        feel()
        return work(*args, **kwargs)

    return felt


def _feel(line: Line, is_rank: bool) -> None:
    if is_rank:
        _ = line.hello
    if not line.moves.is_set():
        _block_forever(line)
    if line.failed:
        time.sleep(BROKEN_SECONDS)
        raise RuntimeError(line.failed)
    if line.gpu:
        text = line.gpu
        line.ask("felt")
        raise RuntimeError(text)


def _block_forever(line: Line) -> None:
    """Block like a collective that never ends: no signal wakes this thread, and others continue."""
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        line.moves.wait()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
