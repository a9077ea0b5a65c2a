"""The bounds of the files of jobs.

Does not import pydantic, so that shell completion stays fast.
"""

from __future__ import annotations

FILES_BYTES_MAX = 1024 * 1024
"""Most bytes of all files of a job together: they travel with each start of a rank."""


def is_inside(path: str) -> bool:
    """Return whether a path is relative, and leads nowhere else."""
    return path.isprintable() and not {"", ".", ".."} & {*path.split("/")}
