"""The file descriptors of this process: as many as the system allows."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator

from reconciler.gateway.admission import ConnectionLimits

STEPS = (65_536, 49_152, 24_576, 10_240)
"""What to ask for where the system names no limit of its own.

On macOS the hard limit is infinite, yet ``setrlimit`` refuses an infinite soft one with EINVAL and asks for OPEN_MAX,
which is 10240, instead (``man 2 setrlimit``, under COMPATIBILITY); the kernel takes more, up to ``kern.maxfilesperproc``.
"""


FEW = 1024
"""With fewer, a page that is open for some dozens of people may find no connection left."""


def raised() -> int:
    """Raise the soft limit of descriptors to what is allowed. Returns the limit now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in candidates(soft, hard):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            break
    return limit()


def limit() -> int:
    """Return how many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return STEPS[0] if soft == resource.RLIM_INFINITY else soft


def shortage(count: int) -> str:
    """Return what so few descriptors mean, in a sentence; empty where there are enough."""
    if count >= FEW:
        return ""
    most = ConnectionLimits.of(count).in_all
    return f"the gateway may have only {count} descriptors, so it takes at most {most} connections"


def candidates(soft: int, hard: int) -> Iterator[int]:
    """Yield the soft limits to try, the highest first: all above the present one."""
    if soft == resource.RLIM_INFINITY:
        return
    finite = hard != resource.RLIM_INFINITY
    if finite and soft < hard:
        yield hard
    for step in STEPS:
        if soft < step and (not finite or step < hard):
            yield step
