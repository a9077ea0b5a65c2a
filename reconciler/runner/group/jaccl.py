"""MLX's collectives over RDMA: the strict start of a group on the ``jaccl`` backend, as a mesh or a ring."""

from __future__ import annotations

import contextlib
from typing import Any

import mlx.core as mx

from reconciler.runner.model.adapter import versions
from reconciler.runner.model.mlx_errors import meaning
from reconciler.wire.launch import DEVICES_JOINT, ExitCode, RankConfig, RankEnd

from .init import call_the_roll, checked, environment, interrupted, timed_out
from .known_sums import check_buffers
from .side_channel import SideChannel

VARIABLES = {
    "devices": ("JACCL_IBV_DEVICES", "MLX_IBV_DEVICES"),
    "coordinator": ("JACCL_COORDINATOR", "MLX_JACCL_COORDINATOR"),
    "rank": ("JACCL_RANK", "MLX_RANK"),
    "ring": ("JACCL_RING", "MLX_JACCL_RING"),
}
"""Environment variables of JACCL (``jaccl.cpp``), each with two names, of which the first wins: both are always set to
the same value."""


def require_jaccl() -> None:
    """Raise ``RankEnd(NO_BACKEND)`` if MLX has no JACCL, before any kernel resource is used."""
    if not mx.distributed.is_available("jaccl"):
        raise RankEnd(
            ExitCode.NO_BACKEND,
            f"MLX {versions()[0]} here has no JACCL: it needs macOS 26.2 or newer, and MLX's wheel for it",
        )


def init_jaccl(config: RankConfig, side: SideChannel, shim: int) -> Any:
    """The group, an ``mx.distributed.Group`` of exactly ``config.size`` ranks.

    ``init`` holds the interpreter's lock but while it waits for other ranks, which it does in ``side``: there the
    watch ends it when one of them is gone, and its own bound when they are late. A call that blocks in the driver
    ends by a signal, if the driver allows it. Raises ``RankEnd`` with what the first error of this process means,
    ``VERBS`` where nothing is known of it, ``WRONG_GROUP``, or ``WRONG_RESULT``.
    """
    try:
        with _environment(config), interrupted([shim], config.verbs_seconds):
            group = mx.distributed.init(strict=True, backend="jaccl", all_gather_factory=side.factory)
        checked(group, config)
        call_the_roll(group, config)
        check_buffers(group)
    except (RuntimeError, ValueError) as error:
        raise side.failure or _failure(str(error), config) from None
    return group


def _failure(text: str, config: RankConfig) -> RankEnd:
    if timed_out(text):
        code: int | None = ExitCode.VERBS
        text = f"the RDMA driver did not answer within {config.verbs_seconds:g} s ({text})"
    else:
        code = meaning(text)
    devices = sorted({device for cell in config.devices[config.id.rank] for device in _names(cell)})
    return RankEnd(
        ExitCode.VERBS if code is None else code,
        f"MLX could not set up RDMA on {', '.join(devices)}: {text}",
    )


def _environment(config: RankConfig) -> contextlib.AbstractContextManager[None]:
    """Set the file from which JACCL takes its devices, and remove other variables of it."""
    matrix = [[_names(cell) or None for cell in row] for row in config.devices]
    values = {
        # Nobody opens it, for the ranks have a side channel already; MLX may want to see that there is one.
        "coordinator": config.control,
        "rank": str(config.id.rank),
        "ring": "1" if config.prefer_ring else None,
    }
    others = {name: value for what, value in values.items() for name in VARIABLES[what]}
    return environment("devices-", matrix, VARIABLES["devices"], others)


def _names(cell: str) -> list[str]:
    """Return the devices of a cell: JACCL uses all of them."""
    return cell.split(DEVICES_JOINT) if cell else []
