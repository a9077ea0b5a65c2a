"""What a killed git leaves in a repository, and never removes itself."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

LOCK_SECONDS_MAX = 120.0
"""git holds a ref's lock for milliseconds: an older lock is left over from a killed git."""
QUARANTINE_SECONDS_MAX = 24 * 3600.0
"""No push takes this long: objects in quarantine for longer are left over from a killed push."""


def drop_leftovers(path: Path) -> list[Path]:
    """Remove what a killed git has left in the bare repository at ``path``. Return what was removed."""
    dropped = []
    for lock in (
        *sorted((path / "refs").rglob("*.lock")),  # of every ref: git lets no ref's own name end like that
        path / "packed-refs.lock",
        path / "config.lock",
        path / "HEAD.lock",
    ):
        if _age_seconds(lock) > LOCK_SECONDS_MAX:
            lock.unlink(missing_ok=True)
            dropped.append(lock)
    for quarantine in (path / "objects").glob("tmp_objdir-*"):
        if _age_seconds(quarantine) > QUARANTINE_SECONDS_MAX:
            shutil.rmtree(quarantine, ignore_errors=True)
            dropped.append(quarantine)
    return dropped


def _age_seconds(path: Path) -> float:
    """Return the time since the last change; negative if the file does not exist."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return -1.0
