"""Translates MLX's messages: its errors have no types, so they are distinguished by their texts.

The texts are those of MLX 0.32: ``jaccl/{tcp,rdma,mesh}.cpp``, ``ring.cpp``, ``distributed.cpp`` and Metal's. A test
compares them with the libraries of the pinned wheels. The numbers of RDMA are macOS's: 12 and 16 of a driver without
objects, and 22 and 96 of a GID that is missing, stale or at another index (github.com/ml-explore/mlx/issues/3467). Until
then a queue pair has no GID, so that 96 has the first meaning there.
"""

from __future__ import annotations

import errno
import re

from reconciler.wire.launch import ExitCode

_NO_ROUTE = f"(65|{errno.EHOSTUNREACH}|{errno.ENETUNREACH})"
"""``EHOSTUNREACH`` of macOS, where JACCL runs, and of this system."""
_IN_USE = f"(48|{errno.EADDRINUSE})"

_MEANINGS: tuple[tuple[int, str], ...] = (
    (ExitCode.PEER_LOST, r"connection to a peer was lost|\[jaccl\] (send|recv) failed with errno="),
    (
        ExitCode.MEMORY,
        r"unable to allocate|out of memory|outofmemory|insufficient memory|\[malloc|\[metal::malloc\]"
        r"|maximum (allowed|metal) buffer size|larger than the maximum working set",
    ),
    (
        ExitCode.GPU,
        r"command buffer execution failed|kiogpucommandbuffercallbackerror|no metal device available"
        r"|\[metal::(device|commandencoder)\] (unable|failed)|failed to create metal shared event",
    ),
    (
        ExitCode.WEIGHTS,  # the model's code asks for what no backend of this kind has
        r"only supported (to|from) direct neighbors|group split not supported|sum_scatter not supported"
        r"|unsupported dtype for jaccl",
    ),
    (
        ExitCode.KERNEL_OBJECTS,
        r"couldn't allocate protection domain|couldn't create completion queue|register memory region failed"
        r"|creating the queue pair failed with .*\((12|16|96)\)"
        r"|changing queue pair to (init failed with errno (12|16|96)|rt[rs] failed with errno (12|16))\b",
    ),
    (ExitCode.GID_UNREACHED, r"changing queue pair to rt[rs] failed with errno 60\b"),
    (ExitCode.GID, r"no ipv4-mapped gid|changing queue pair to rt[rs] failed with errno (22|96)\b"),
    (
        ExitCode.VERBS,
        r"changing queue pair to|creating the queue pair failed|couldn't create queue pair"
        r"|could not (find|open) device|(send|recv) failed with error code|buffer can be registered once"
        r"|\[jaccl\] (the (device|configuration|full connectivity|jaccl mesh)|device names|up to|you need to provide)",
    ),
    (
        ExitCode.NO_BACKEND,
        r"cannot initialize jaccl|couldn't initialize any backend|valid values for backend",
    ),
    (ExitCode.CONFIG, r"\[ring\] (rank|it is required|you need to provide)"),
    (ExitCode.NO_ROUTE, rf"couldn't connect.*\(error: {_NO_ROUTE}\)"),
    (ExitCode.PORT_IN_USE, rf"couldn't bind socket.*\(error: {_IN_USE}\)"),
    (
        ExitCode.RENDEZVOUS,
        r"couldn't (connect|bind socket|listen|create socket|enable reuse\w+)|accept failed|can't parse address",
    ),
)
"""Patterns in lower-case text; the first match decides."""


def meaning(text: str) -> int | None:
    """Return the exit status for an error of MLX; None for an unexpected error."""
    small = text.lower()
    return next((code for code, pattern in _MEANINGS if re.search(pattern, small)), None)
