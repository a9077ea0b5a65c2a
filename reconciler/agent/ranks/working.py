"""The working directories of jobs: removing them, whatever their programs have left there.

A program may have made folders that are too deep for a path, or that their modes hide. So the system's tools, which know
no longest path, remove them, as the user to whom they belong, and in the background.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import threading
from pathlib import Path
from typing import Callable, List

from reconciler.wire.job_user import started_as
from reconciler.wire.paths import WORK, jobs_root

OWNER_FILE = "place.json"
"""Names the rank's directory to which a place belongs, and the user."""
REMOVE_SECONDS = 3600.0
_OWNER_BYTES_MAX = 64 * 1024
_EMPTY = 'chmod u+rwx "$1"; cd "$1" || exit; chmod -R u+rwX .; find . -mindepth 1 -delete'
"""It ends where it cannot enter the directory: elsewhere it would remove whatever is there."""
_log = logging.getLogger("agent")


def remove(path: str) -> None:
    """Remove a working directory of the agent's user in the background."""
    threading.Thread(target=_remove, args=(path, ""), name="remove " + path, daemon=True).start()


def remove_places(ranks: Path, is_needed: Callable[[Path], bool]) -> None:
    """Remove, in the background, the places of jobs of other users that belong to a rank below ``ranks`` and are not
    needed."""
    found: List[Path] = []
    with contextlib.suppress(OSError):
        found = list(Path(jobs_root(os.geteuid())).iterdir())
    for place in found:
        try:
            with (place / OWNER_FILE).open("rb") as stream:
                owner = json.loads(stream.read(_OWNER_BYTES_MAX))
            directory, user = Path(owner["directory"]), str(owner["user"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if directory.parent == ranks and not is_needed(directory):
            threading.Thread(target=_remove_place, args=(place, user), name=str(place), daemon=True).start()


def _remove_place(place: Path, user: str) -> None:
    work = place / WORK
    _remove(str(work), user)
    if work.exists():
        return  # without its owner's name nobody would try again
    with contextlib.suppress(OSError):
        for path in place.iterdir():
            path.unlink()
        place.rmdir()


def _remove(path: str, user: str) -> None:
    try:
        words, arguments = started_as(user)
        command = [*words, "/bin/sh", "-c", _EMPTY, "sh", path]
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            timeout=REMOVE_SECONDS,
            check=False,
            **arguments,
        )
        with contextlib.suppress(FileNotFoundError):
            Path(path).rmdir()
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        _log.warning("the working directory %s cannot be removed: %s", path, error)
