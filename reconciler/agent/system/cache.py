"""The user's cache: what every node of this user may use again, and may lose."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Mapping


def folder_for_kernels(environment: Mapping[str, str], node: Path) -> Path:
    """Return the folder for temporary files of ranks, where MLX keeps the code that its CPU backend has compiled. Raises
    ``OSError``.

    It is in the user's cache, so that the first rank of a new home need not compile it again. It is in the node's own
    directory ``node`` if the cache cannot be used, or if others could write there: a rank runs that code.
    """
    chosen = Path(environment.get("XDG_CACHE_HOME", ""))
    base = chosen if chosen.is_absolute() else Path(environment.get("HOME", ""), ".cache")
    with contextlib.suppress(OSError):
        shared = base / "reconciler" / "tmp"
        if base.is_absolute():
            shared.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _private(shared) and _private(shared.parent):
                return shared
    own = node / "tmp"
    own.mkdir(mode=0o700, exist_ok=True)
    return own


def _private(folder: Path) -> bool:
    """Return whether this user, and nobody else, may write to a folder."""
    status = folder.stat()
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.geteuid() and not others and os.access(folder, os.W_OK | os.X_OK)
