"""The place of a rank's working directory.

Without another user it is the rank's directory. For another user it is a folder below ``wire.paths.jobs_root``, which the
agent's user owns: others may pass through it to the working directory, which only its own user may enter.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import stat
from pathlib import Path

from reconciler.wire.job_user import another
from reconciler.wire.launch import ExitCode, RankEnd
from reconciler.wire.paths import WORK, job_place, jobs_root

from .config import Launch

_PASSED = 0o711
_FILLED = 0o733
"""Mode while the other user makes the working directory."""


class Place:
    """The place in which the working directory is made. ``work`` is its absolute path."""

    def __init__(self, launch: Launch) -> None:
        """Make the place. Raises ``RankEnd(CONFIG)``."""
        user = launch.job.user
        self.owner = pwd.getpwnam(user).pw_uid if user else os.geteuid()
        self._path = Path(job_place(str(launch.directory), user, os.geteuid()))
        self._other = another(user)
        self.folder = str(self._path)
        self.work = str(self._path / WORK)
        if user:
            try:
                _make_root(Path(jobs_root(os.geteuid())))
                self._path.mkdir(0o700)
                _describe(self._path, launch)
                self._path.chmod(_FILLED if self._other else _PASSED)
            except OSError as error:
                text = "cannot make the folder of the job: {}".format(error)
                raise RankEnd(ExitCode.CONFIG, text) from None

    def close(self) -> None:
        """Keep others from making anything in the place. Raises ``RankEnd(CONFIG)`` if the working directory is not the
        user's own."""
        if self._other:
            self._path.chmod(_PASSED)
        found = os.lstat(self.work)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != self.owner:
            raise RankEnd(ExitCode.CONFIG, "{} does not belong to the job's user".format(self.work))


def _describe(place: Path, launch: Launch) -> None:
    """Note the rank of a place, for the agent. Raises ``OSError``."""
    owner = {"directory": str(launch.directory), "user": launch.job.user}
    with os.fdopen(os.open(place / "place.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump(owner, stream)


def _make_root(root: Path) -> None:
    """Make the folder for all jobs. Raises ``OSError`` if there is something else."""
    with contextlib.suppress(FileExistsError):
        root.mkdir(0o700)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise FileExistsError("{} belongs to another user: remove it".format(root))
    root.chmod(_PASSED)
