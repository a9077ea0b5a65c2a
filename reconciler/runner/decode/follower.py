"""The loop of every rank but rank 0: sleep until rank 0 says the next step, then do it."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.codec import WireError, decode
from reconciler.wire.group import FOLLOWER_RECEIVES, KeepAlive, Leave, Step
from reconciler.wire.launch import ExitCode, Phase, RankEnd

from .batch import Batch, Pulse


def follow_steps(
    orders: SimpleQueue[dict[str, Any]],
    batch: Batch,
    progress: ProgressPipe,
    ready: Callable[[], None],
    pulse: Pulse | None = None,
) -> str:
    """Do as rank 0 says until it says ``Leave``; returns the reason it gave. Raises ``RankEnd``.

    ``ready`` is called once, when the first completion of the group is over.
    """
    while True:
        order = _decoded(orders.get())
        if isinstance(order, Leave):
            return order.reason
        if isinstance(order, KeepAlive):
            _beat(pulse, order, batch)
            continue
        progress.demand(batch.live + len(order.insert))
        batch.run(order)
        progress.demand(batch.live)
        if progress.phase == Phase.WARM and not batch.live:
            ready()


def _beat(pulse: Pulse | None, order: KeepAlive, batch: Batch) -> None:
    if pulse is None or order.number != batch.next_step:
        raise RankEnd(
            ExitCode.DIVERGED,
            f"this rank is at step {batch.next_step}, rank 0 asked for a sign of life before step {order.number}",
        )
    pulse.beat()


def _decoded(frame: dict[str, Any]) -> Step | KeepAlive | Leave:
    try:
        order = decode(frame, FOLLOWER_RECEIVES)
    except WireError as error:
        raise RankEnd(ExitCode.DIVERGED, f"rank 0 sent an invalid order: {error}") from None
    if not isinstance(order, (Step, KeepAlive, Leave)):
        raise RankEnd(ExitCode.DIVERGED, f"rank 0 sent {type(order).__name__} instead of a step")
    return order
