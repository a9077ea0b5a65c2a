"""A second group of the same ranks, over TCP, whose results do not depend on RDMA.

MLX keeps one group for each backend in a process (``mlx/distributed/distributed.cpp``), so that a ring can be formed beside
JACCL, and the weights are loaded once.
"""

from __future__ import annotations

import dataclasses
import functools
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import mlx.core as mx

from reconciler.runner.model.memory import replaced
from reconciler.wire.launch import RankConfig, RankEnd

from . import neighbours
from .ring import init_ring

MEETING_SECONDS = 20.0
"""Bound on the wait for the neighbours. All ranks are there already, and have just set up RDMA together."""
COLLECTIVES = ("all_gather", "all_max", "all_min", "all_sum", "recv", "recv_like", "send", "sum_scatter")


@dataclasses.dataclass(frozen=True)
class Reference:
    """The second group."""

    group: mx.distributed.Group | None
    why: str = ""
    """Why there is none, for people."""


def form(
    config: RankConfig, listener: socket.socket, ring: tuple[int, ...], group: mx.distributed.Group, shim: int
) -> Reference:
    """Form the second group on all ranks, or on none: it is no reason to give up what RDMA can do.

    ``listener`` is where the neighbour is accepted, ``ring`` the ports of all ranks' listeners, and ``group`` theirs over
    RDMA. Raises ``RankEnd`` like ``ring.init_ring``, and MLX's errors.
    """
    met, why = None, ""
    try:
        bounded = dataclasses.replace(config, rendezvous_seconds=MEETING_SECONDS)
        met = neighbours.meet(bounded, listener, ring)
    except RankEnd as end:
        why = end.sentence
    answers: Any = mx.distributed.all_gather(mx.array([met is not None]), group=group).tolist()
    missing = [rank for rank, found in enumerate(answers) if not found]
    if met is None or missing:
        for connection in met or ():
            connection.close()
        return Reference(None, why or f"rank {missing[0]} found no way to its neighbours over TCP")
    return Reference(init_ring(config, *met, shim))


def carried_by(group: mx.distributed.Group) -> AbstractContextManager[None]:
    """Let all collectives of this process run over ``group`` meanwhile, whichever group they are called for. Layers look
    the functions up at each call."""
    known = {name: getattr(mx.distributed, name) for name in COLLECTIVES if hasattr(mx.distributed, name)}
    return replaced([(mx.distributed, name, _over(group, call)) for name, call in known.items()])


def _over(group: mx.distributed.Group, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def over(*args: Any, **more: Any) -> Any:
        return call(*args, **{**more, "group": group})

    return over
