"""The effect of few file descriptors on clients."""

from __future__ import annotations

from reconciler.gateway.admission import ConnectionLimits

FEW = 1024
"""With fewer, a page that dozens of people have open may find no connection left."""


def shortage(count: int) -> str:
    """Return the effect of so few descriptors in a sentence; empty if there are enough."""
    if count >= FEW:
        return ""
    most = ConnectionLimits.of(count).in_all
    return f"the gateway may have only {count} descriptors, so it takes at most {most} connections"
