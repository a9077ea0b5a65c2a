"""What few file descriptors mean for clients."""

from __future__ import annotations

from reconciler.gateway.admission import ConnectionLimits

FEW = 1024
"""With fewer, a page that is open for some dozens of people may find no connection left."""


def shortage(count: int) -> str:
    """Return what so few descriptors mean, in a sentence; empty where there are enough."""
    if count >= FEW:
        return ""
    most = ConnectionLimits.of(count).in_all
    return f"the gateway may have only {count} descriptors, so it takes at most {most} connections"
