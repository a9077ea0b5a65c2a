"""The file descriptors of a process: as many as the system allows. A service manager gives it 256, but each machine,
client and file takes one."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator

STEPS = (65_536, 49_152, 24_576, 10_240)
"""Limits to try if the system names none.

On macOS the hard limit is infinite, yet ``setrlimit`` refuses an infinite soft limit with EINVAL, and asks for OPEN_MAX
(10240) instead (``man 2 setrlimit``, COMPATIBILITY). The kernel takes more, up to ``kern.maxfilesperproc``.
"""

SPARE = 8
"""Descriptors for starting a process: both ends of its three pipes, and of the pipe that reports a failed start."""


def raised() -> int:
    """Raise the soft limit of descriptors as far as allowed. Return the limit now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in candidates(soft, hard):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            break
    return limit()


def limit() -> int:
    """Return the number of descriptors that this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return STEPS[0] if soft == resource.RLIM_INFINITY else soft


def candidates(soft: int, hard: int) -> Iterator[int]:
    """Yield the soft limits to try, the highest first; all are above the present one."""
    if soft == resource.RLIM_INFINITY:
        return
    finite = hard != resource.RLIM_INFINITY
    if finite and soft < hard:
        yield hard
    for step in STEPS:
        if soft < step and (not finite or step < hard):
            yield step


def are_spare(count: int = SPARE) -> bool:
    """Return whether this process may open ``count`` more descriptors."""
    with contextlib.ExitStack() as stack:
        try:
            for _ in range(count):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return False
    return True
