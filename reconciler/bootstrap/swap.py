"""Replaces a home's files by restored ones: all of them or none, even if it is interrupted.

The new files are staged next to the old ones, complete and checked. One rename decides. Further renames follow, which
every process may continue: the next controller does, and so does every other user of the files.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path

from reconciler.wire.file_identity import FileIdentity

ASIDE = "state.before-restore"
"""Folder of the replaced files, until the next restore."""
LOCK_SECONDS = 30.0
"""Longest wait for another process to finish a replacement, which is a few renames."""
LOCK_LOOK_SECONDS = 0.05
_STAGED, _DRAFT = ".restoring", ".restoring.part"
_NAMES = ("cluster.git", "source.yaml", "store.db-wal", "store.db-shm", "store.db")


def stage(home: Path) -> Path:
    """Return an empty folder for new files under their final names. Raises ``OSError``."""
    draft = home / _DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    (draft / "old").mkdir(mode=0o700, parents=True)
    return draft


def drop(home: Path) -> None:
    """Remove files that were staged but not decided."""
    shutil.rmtree(home / _DRAFT, ignore_errors=True)


def decide(home: Path) -> None:
    """Make the staged files the files of the home. Raises ``OSError``."""
    for folder, _, files in os.walk(home / _DRAFT):
        for name in files:
            _sync(Path(folder, name))
        _sync(Path(folder))
    (home / _DRAFT).rename(home / _STAGED)
    _sync(home)
    finish(home)


def finish(home: Path) -> bool:
    """Carry out a decided replacement. Return whether there was one. Raises ``OSError``."""
    staged = home / _STAGED
    try:
        descriptor = os.open(staged, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        _lock(descriptor)
        if FileIdentity.held(str(staged), descriptor).replaced:  # another process has finished it meanwhile
            return True
        if (staged / "old").exists():
            _move_aside(home, staged / "old")
        for name in _NAMES:
            if (staged / name).exists():
                (staged / name).rename(home / name)
        _sync(home)
        shutil.rmtree(staged)
    finally:
        os.close(descriptor)
    return True


def _lock(descriptor: int) -> None:
    """Wait for another process that finishes the replacement. Raises ``OSError`` if it takes too long."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(LOCK_LOOK_SECONDS)


def _move_aside(home: Path, old: Path) -> None:
    """Move all old files into one folder; its removal shows that only new files are missing."""
    for name in _NAMES:
        if (home / name).exists():
            (home / name).rename(old / name)
    if not any(old.iterdir()):
        old.rmdir()
        return
    shutil.rmtree(home / ASIDE, ignore_errors=True)
    old.rename(home / ASIDE)
    _sync(home)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
