"""The limit of open files and connections, which shims and ranks inherit from their agent."""

from __future__ import annotations

import contextlib
import resource

WANTED = 10240
"""As many as macOS gives any process (``OPEN_MAX``); launchd and SSH sessions begin with 256."""


def raise_limit() -> int:
    """Raise the soft limit as far as the hard one allows, at most to ``WANTED``; a higher one stays. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
