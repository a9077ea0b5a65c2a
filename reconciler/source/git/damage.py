"""Finds damage of a repository before somebody pushes to it, after a disk failure, a loss of power or a partial
copy."""

from __future__ import annotations

from pathlib import Path

from reconciler.errors import Unreachable, few_names

from .process import git_process

EXAMINED_SECONDS = 120.0
WHOLE_BYTES_MAX = 256 * 1024 * 1024
"""For a larger repository, only the connections of its objects are examined, and not the contents of its files."""
SHOWN = 3
_HARMLESS = ("notice:", "warning:", "dangling ", "Checking ", "hint:")


def damage(path: Path) -> str:
    """Return the faults that `git fsck` finds in the bare repository at ``path``, for people; empty if there are none.

    Raises ``Unreachable`` if it takes too long.
    """
    size = sum(each.stat().st_size for each in (path / "objects").rglob("*") if each.is_file())
    depth = "--connectivity-only" if size > WHOLE_BYTES_MAX else "--full"
    arguments = (f"--git-dir={path}", "fsck", depth, "--no-dangling", "--no-progress")
    process = git_process(arguments, b"", {}, EXAMINED_SECONDS)
    if not process.returncode:
        return ""
    if process.returncode < 0:
        raise Unreachable(f"git fsck was ended by signal {-process.returncode}")
    lines = (process.stderr + b"\n" + process.stdout).decode("utf-8", "replace").splitlines()
    found = [line.strip().replace(f"{path}/", "") for line in lines if line.strip()]
    return few_names([line for line in found if not line.startswith(_HARMLESS)] or found, SHOWN)
