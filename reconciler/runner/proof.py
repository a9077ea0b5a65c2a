"""The proof of a transport before the first request: sums that are known, and a long prompt that is read in two ways."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from reconciler.wire.launch import ExitCode, RankConfig, RankEnd, TransportProof

from .embedding.layout import hidden_size
from .group import known_sums
from .group.reference import Reference, carried_by
from .model import long_prompt
from .model.adapter import Loaded
from .model.files import ModelFiles


def prove(
    config: RankConfig,
    files: ModelFiles,
    loaded: Loaded,
    group: Any,
    reference: Reference | None,
    going_on: Callable[[], None],
) -> TransportProof:
    """Return what is right over ``group``, as all ranks do at the same time. ``going_on`` is called after each part.

    Raises ``RankEnd(WRONG_RESULT)``, and MLX's errors.
    """
    began = time.monotonic()
    largest = known_sums.largest_array(hidden_size(files.config) or 0)
    tried = known_sums.check(group, largest, going_on)
    summed = time.monotonic()
    if reference is None or reference.group is None:
        why = reference.why if reference else "no second group was formed"
        return TransportProof(tried, sums_seconds=summed - began, why_no_prompt=why)
    prompt = long_prompt.tokens(loaded, config.context)
    found = long_prompt.read(loaded, prompt, going_on)
    read = time.monotonic()
    mx.clear_cache()
    with carried_by(reference.group):
        expected = long_prompt.read(loaded, prompt, going_on)
    compared = time.monotonic()
    mx.clear_cache()
    apart = long_prompt.deviation(found, expected)
    if apart > long_prompt.DEVIATION_MAX:
        raise RankEnd(
            ExitCode.WRONG_RESULT,
            f"the model reads a prompt of {len(prompt)} tokens over RDMA differently than over TCP: its numbers differ by"
            f" {apart:.0%} of their size, at most {long_prompt.DEVIATION_MAX:.0%} is expected",
        )
    return TransportProof(tried, len(prompt), apart, summed - began, read - summed, compared - read)
