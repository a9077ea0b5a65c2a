"""What the nodes of one group must have in common: their ranks run one computation, each a part of it.

What is not known of a node is not held against it: an agent of an older version tells less.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from reconciler.wire.node import ModelReport, NodeReport

Traits = tuple[str | None, ...]
"""Values of ``TRAITS``, in that order; None where one is not known."""

SYSTEM, KERNEL, BUILD, MLX, MLX_LM, ENGINE, WEIGHTS = TRAITS = (
    "system",
    "kernel",
    "macOS build",
    "mlx",
    "mlx-lm",
    "engine",
    "weights",
)
OF_SYSTEM = (SYSTEM, KERNEL, BUILD)


def traits(report: NodeReport, weights: ModelReport | None = None) -> Traits:
    """What counts of a node, and of the weights at one path there."""
    runtime, darwin = report.runtime or {}, report.system == "Darwin"
    return (
        f"{report.system} {report.machine}",
        report.release if darwin else None,  # elsewhere the runtime brings along what it needs
        (report.build if darwin else "") or None,
        runtime.get("mlx") or None,
        runtime.get("mlx-lm") or None,
        runtime.get("engine") or None,
        _weights(weights),
    )


def _weights(weights: ModelReport | None) -> str | None:
    if weights is None or not weights.present:
        return None
    if weights.verified:
        return weights.path  # names the very commit, and every file is as the hub has it
    if weights.examining:
        return None
    return hashlib.sha256(
        json.dumps([weights.weights_bytes, weights.config], sort_keys=True).encode()
    ).hexdigest()[:8]


def agree(one: Traits, other: Traits) -> bool:
    """Whether nothing that is known of both is different."""
    return not any(differences(one, other))


def differences(one: Traits, other: Traits) -> Iterator[tuple[str, str, str]]:
    """Each trait that differs, with both its values."""
    for name, mine, theirs in zip(TRAITS, one, other, strict=True):
        if mine is not None and theirs is not None and mine != theirs:
            yield name, mine, theirs


def together(one: Traits, other: Traits) -> Traits:
    """What is known of two that agree."""
    return tuple(mine if mine is not None else theirs for mine, theirs in zip(one, other, strict=True))


def unknown(known: Traits, darwin: bool) -> list[str]:
    """The traits of a machine that it has not told."""
    expected = (MLX, MLX_LM, ENGINE, BUILD) if darwin else (MLX, MLX_LM, ENGINE)
    return [name for name in expected if known[TRAITS.index(name)] is None]
