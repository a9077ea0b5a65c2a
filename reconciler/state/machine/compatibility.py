"""Compares the nodes of a group: their ranks run one computation, so their traits must agree.

Unknown traits count as equal, because an older agent reports fewer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from reconciler.wire.engines import ENGINES
from reconciler.wire.node import ModelReport, NodeReport

Traits = tuple[str | None, ...]
"""Values of ``TRAITS``, in that order; None where a value is not known."""

SYSTEM, KERNEL, BUILD, ENGINE, WEIGHTS = "system", "kernel", "macOS build", "engine", "weights"
PACKAGES = tuple(dict.fromkeys(name for each in ENGINES for name in each.equal))
TRAITS = (SYSTEM, KERNEL, BUILD, *PACKAGES, ENGINE, WEIGHTS)
OF_SYSTEM = (SYSTEM, KERNEL, BUILD)


def traits(report: NodeReport, weights: ModelReport | None = None) -> Traits:
    """Return the traits of a node, and of its weights at one path."""
    runtime, darwin = report.runtime or {}, report.system == "Darwin"
    return (
        f"{report.system} {report.machine}",
        report.release if darwin else None,  # elsewhere the runtime brings along all that it needs
        (report.build if darwin else "") or None,
        *(runtime.get(name) or None for name in PACKAGES),
        runtime.get("engine") or None,
        _weights(weights),
    )


def _weights(weights: ModelReport | None) -> str | None:
    if weights is None or not weights.present:
        return None
    if weights.verified:
        return weights.path  # names the exact commit, and every file is as on the hub
    if weights.examining:
        return None
    return hashlib.sha256(
        json.dumps([weights.weights_bytes, weights.config], sort_keys=True).encode()
    ).hexdigest()[:8]


def agree(one: Traits, other: Traits) -> bool:
    """Return whether all traits that both sides know are equal."""
    return not any(differences(one, other))


def differences(one: Traits, other: Traits) -> Iterator[tuple[str, str, str]]:
    """Yield each trait that differs, with both values."""
    for name, mine, theirs in zip(TRAITS, one, other, strict=True):
        if mine is not None and theirs is not None and mine != theirs:
            yield name, mine, theirs


def together(one: Traits, other: Traits) -> Traits:
    """Return the combined traits of two nodes that agree."""
    return tuple(mine if mine is not None else theirs for mine, theirs in zip(one, other, strict=True))


def unknown(known: Traits, darwin: bool) -> list[str]:
    """Return the traits that a machine has not reported."""
    expected = (*PACKAGES, ENGINE, BUILD) if darwin else (*PACKAGES, ENGINE)
    return [name for name in expected if known[TRAITS.index(name)] is None]
