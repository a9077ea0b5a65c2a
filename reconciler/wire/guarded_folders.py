"""The folders of a Mac that macOS guards against programs without a person's consent, and the volumes that may be absent.

Nobody is asked for consent on behalf of a launchd job: each access ends with ``EPERM``, although the rights of the files
allow it. macOS mounts external volumes when somebody logs in. Both are reported of real Macs, and were not measured.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

VOLUMES = Path("/Volumes")
_OF_HOME = ("Desktop", "Documents", "Downloads")


def guarded(path: Path) -> bool:
    """Return whether a path leads into a guarded folder: of the user's home, or on an external or a network volume."""
    home = Path.home().resolve()
    return any(folder in path.resolve().parents for folder in (VOLUMES, *(home / name for name in _OF_HOME)))


def barred(error: BaseException) -> bool:
    """Return whether macOS has refused an access for lack of consent. Other causes have other errors, or other places."""
    if not isinstance(error, OSError) or error.errno != errno.EPERM or error.filename is None:
        return False
    return guarded(Path(os.fsdecode(error.filename)))


def absent_volume(path: Path) -> str:
    """Return the volume that an absolute path is on, such as ``/Volumes/weights``, if it is not mounted; else empty."""
    real = path.resolve()
    volume = VOLUMES.joinpath(*real.relative_to(VOLUMES).parts[:1]) if VOLUMES in real.parents else VOLUMES
    return "" if volume == VOLUMES or volume.is_mount() else str(volume)
