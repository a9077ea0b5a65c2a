"""The directory of one rank: ``<agent's directory>/ranks/<RankId>/``.

==================  ===================================================================================
file                contents
==================  ===================================================================================
``spec.json``       the ``LaunchSpec`` (mode 0600: its config holds the group's secret)
``config.json``     the ``RankConfig``, for the rank itself
``state.json``      the last ``ShimState`` of a changed phase, and the exit
``process.json``    pid and birth of the rank's process, written before it runs a single instruction, and the
                    ``files.place`` of the directory: in a copy, that of the original
``rank.*.log``      its output
``work``            the working directory of a job that runs as the agent's user
==================  ===================================================================================

The secrets of a job are removed from the first two once its rank has ended. A record that is kept has only ``spec.json``,
``state.json`` and ``process.json``. The directory appears and disappears in one step: it is made beside its place and renamed.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any, List, Optional, Tuple

from reconciler.agent.system import files
from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.launch import JOB_PREFIX, LaunchSpec, RankId
from reconciler.wire.node import ShimState
from reconciler.wire.paths import WORK

from . import working

_JSON_BYTES_MAX = 4 * 1024 * 1024
"""A job may have files of a megabyte in its spec."""
_RECORD = ("spec.json", "state.json", "process.json")
_MADE, _GONE, _WORK_GONE = ".new-", ".gone-", ".work-"
_WORKLOAD = re.compile(r"(" + JOB_PREFIX + r")?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")


class Owner:
    """The directory to which the process in ``process.json`` belongs."""

    THIS, OTHER = "this", "other"
    UNKNOWN = "unknown"
    """A version that did not write it down started the process."""


class RankDirectory:
    """Reads and writes one rank's files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        return self.path / name

    def spec(self) -> LaunchSpec:
        """Return the launch spec. Raises ``OSError``, ``ValueError`` or ``WireError``."""
        return from_wire(LaunchSpec, files.read_json(self.file("spec.json"), _JSON_BYTES_MAX))

    def state(self) -> Optional[ShimState]:
        """Return the last state that the shim wrote; None if there is none or it cannot be read."""
        try:
            return from_wire(ShimState, files.read_json(self.file("state.json"), _JSON_BYTES_MAX))
        except (OSError, ValueError, WireError):
            return None

    def write_state(self, state: ShimState) -> None:
        """Write the state. Raises ``OSError``."""
        files.write_json(self.file("state.json"), to_wire(state))

    def process(self) -> Optional[Tuple[int, str]]:
        """Return pid and birth of the rank's process; None if it was never started."""
        try:
            frame: Any = files.read_json(self.file("process.json"), _JSON_BYTES_MAX)
            return int(frame["pid"]), str(frame["birth"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write_process(self, pid: int, birth: str) -> None:
        """Write pid and birth of the rank's process, and the identity of this directory. Raises ``OSError``."""
        started = {"pid": pid, "birth": birth, "place": files.place(self.path)}
        files.write_json(self.file("process.json"), started)

    def owner(self) -> str:
        """Return the directory to which the process belongs: an ``Owner``."""
        try:
            frame: Any = files.read_json(self.file("process.json"), _JSON_BYTES_MAX)
            place = frame.get("place")
            if not place:
                return Owner.UNKNOWN
            return Owner.THIS if place == files.place(self.path) else Owner.OTHER
        except (OSError, ValueError, AttributeError):
            return Owner.UNKNOWN

    def redact(self) -> None:
        """Remove the secrets of a job from its files, once its rank has ended. Raises ``OSError``, ``ValueError`` or
        ``WireError``."""
        spec = self.spec()
        job = spec.config.job
        if job is None or not (job.secrets or spec.config.secret):
            return
        config = dataclasses.replace(spec.config, secret="", job=dataclasses.replace(job, secrets={}))
        files.write_json(self.file("config.json"), to_wire(config))
        files.write_json(self.file("spec.json"), to_wire(dataclasses.replace(spec, config=config)))

    def keep_record(self) -> None:
        """Remove everything but the facts about the rank and its end. Its working directory is moved out first. Raises as
        ``redact``."""
        self.redact()
        spec = self.spec()
        if spec.config.job is not None and spec.config.job.files:
            config = dataclasses.replace(spec.config, job=dataclasses.replace(spec.config.job, files=()))
            files.write_json(self.file("spec.json"), to_wire(dataclasses.replace(spec, config=config)))
        for path in self.path.iterdir():
            if path.name not in _RECORD:
                path.unlink()


def check_id(id: RankId) -> None:
    """Raise ``ValueError`` for an id that would leave its place on disk."""
    if not _WORKLOAD.match(id.deployment) or ".." in id.deployment:
        raise ValueError(
            "deployment {!r}: expected lower-case letters, digits, - and .".format(id.deployment)
        )
    if min(id.replica, id.epoch, id.rank) < 0:
        raise ValueError("{}: replica, epoch and rank are not negative".format(id))


def create(ranks: Path, spec: LaunchSpec) -> RankDirectory:
    """Create the complete directory of a rank under ``ranks``. Raises ``OSError``."""
    unfinished = ranks / (_MADE + str(spec.id))
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(0o700)
    for name, value in (("spec.json", spec), ("config.json", spec.config)):
        content = json.dumps(to_wire(value), separators=(",", ":")).encode()
        files.write_atomically(unfinished / name, content + b"\n")
    path = ranks / str(spec.id)
    unfinished.rename(path)
    files.sync_directory(ranks)
    return RankDirectory(path)


def remove(ranks: Path, id: RankId) -> None:
    """Remove the directory of a rank: at once for a reader, then file by file. The working directory of a job takes longer,
    and is removed in the background. Raises ``OSError``."""
    move_work(ranks, id)
    leftover = ranks / (_GONE + str(id))
    shutil.rmtree(leftover, ignore_errors=True)
    (ranks / str(id)).rename(leftover)
    shutil.rmtree(leftover)


def move_work(ranks: Path, id: RankId) -> None:
    """Move the working directory of a job out of its rank's directory, if there is one, and remove it in the background.
    Raises ``OSError``."""
    work = ranks / str(id) / WORK
    if work.is_dir() and not work.is_symlink():
        moved = ranks / "{}{}-{}".format(_WORK_GONE, id, time.time_ns())
        work.chmod(0o700)  # a folder that its program has closed cannot be moved
        work.rename(moved)
        working.remove(str(moved))


def scan(ranks: Path) -> List[RankId]:
    """Return the ranks that have a directory, and clean up directories that a dead agent created or removed only partly."""
    found = []
    for path in sorted(ranks.iterdir()):
        if path.name.startswith(_WORK_GONE):
            working.remove(str(path))
            continue
        if path.name.startswith((_MADE, _GONE)):
            shutil.rmtree(path, ignore_errors=True)
            continue
        try:
            found.append(RankId.parse(path.name))
        except ValueError:
            continue
    return found
