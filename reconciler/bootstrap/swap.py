"""Restored files in the place of those that are there: all of them or none, whatever happens on the way.

They are staged beside, complete and checked. One rename decides; what follows it is a series of renames that
anybody may continue: the next controller does, and whoever else wants the files.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from reconciler.wire.file_identity import FileIdentity

ASIDE = "state.before-restore"
"""Where what was replaced is kept, until the next time."""
_STAGED, _DRAFT = ".restoring", ".restoring.part"
_NAMES = ("cluster.git", "store.db-wal", "store.db-shm", "store.db")


def stage(home: Path) -> Path:
    """An empty folder to put new files into, under the names that they are to have. Raises ``OSError``."""
    draft = home / _DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    (draft / "old").mkdir(mode=0o700, parents=True)
    return draft


def drop(home: Path) -> None:
    """Forget what was staged and not decided."""
    shutil.rmtree(home / _DRAFT, ignore_errors=True)


def decide(home: Path) -> None:
    """From here on the staged files are those of the home. Raises ``OSError``."""
    for folder, _, files in os.walk(home / _DRAFT):
        for name in files:
            _sync(Path(folder, name))
        _sync(Path(folder))
    (home / _DRAFT).rename(home / _STAGED)
    _sync(home)
    finish(home)


def finish(home: Path) -> bool:
    """Carry out what was decided; whether there was anything. Raises ``OSError``."""
    staged = home / _STAGED
    try:
        descriptor = os.open(staged, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if FileIdentity.held(str(staged), descriptor).replaced:  # somebody else has finished it meanwhile
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


def _move_aside(home: Path, old: Path) -> None:
    """Everything of before into one folder, whose removal tells that only new files are missing."""
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
