"""The rooms that a change touches: their tests of processes belong to the first tier.

A change is what is not committed yet, and what the upstream branch does not have. ``RECONCILER_CHANGED=all`` counts every
room as changed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

EVERY_ROOM = frozenset(["*"])
OF_ALL = ("reconciler/wire/", "reconciler/state/", "pyproject.toml")
"""What every room rests on; so do modules that are in no room."""


def changed_rooms(root: Path) -> frozenset[str]:
    """Return the names of the changed rooms; ``EVERY_ROOM`` where that is not known, as without git."""
    if os.environ.get("RECONCILER_CHANGED") == "all":
        return EVERY_ROOM
    uncommitted = _git(root, "status", "--porcelain", "--untracked-files=all", "--no-renames", "-z")
    if uncommitted is None:
        return EVERY_ROOM
    unmerged = _git(root, "diff", "--name-only", "--no-renames", "-z", "@{upstream}...HEAD") or ()
    return rooms_of([*(line[3:] for line in uncommitted), *unmerged])


def rooms_of(paths: Iterable[str]) -> frozenset[str]:
    """Return the rooms that these files belong to, from the root of the repository."""
    rooms: set[str] = set()
    for path in paths:
        first, *others = path.split("/")
        if path.startswith(OF_ALL) or (first in ("reconciler", "tests") and len(others) == 1):
            return EVERY_ROOM
        if first in ("reconciler", "tests") and others:
            rooms.add(others[0])
    return frozenset(rooms)


def is_changed(rooms: frozenset[str], nodeid: str) -> bool:
    """Return whether a test, or a module of tests, is of one of these rooms."""
    return rooms == EVERY_ROOM or nodeid.split("/")[1:2][0] in rooms


def _git(root: Path, *words: str) -> list[str] | None:
    """Return the names that git lists; None if it cannot."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ("git", "-C", str(root), *words), capture_output=True, env=environment, check=False, timeout=60
        )
    except OSError:
        return None
    if done.returncode != 0:
        return None
    return [name for name in os.fsdecode(done.stdout).split("\0") if name]
