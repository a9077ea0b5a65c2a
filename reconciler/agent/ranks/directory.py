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
==================  ===================================================================================

The directory appears and disappears in one step: it is made beside its place and renamed.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, List, Optional, Tuple

from reconciler.agent.system import files
from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.launch import LaunchSpec, RankId
from reconciler.wire.node import ShimState

_JSON_BYTES_MAX = 1024 * 1024
_MADE, _GONE = ".new-", ".gone-"
_NAME = re.compile(r"(job_)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")


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


def check_id(id: RankId) -> None:
    """Raise ``ValueError`` for an id that would leave its place on disk."""
    if not _NAME.match(id.deployment) or ".." in id.deployment:
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
    """Remove the directory of a rank: at once for a reader, then file by file. Raises ``OSError``."""
    leftover = ranks / (_GONE + str(id))
    shutil.rmtree(leftover, ignore_errors=True)
    (ranks / str(id)).rename(leftover)
    shutil.rmtree(leftover)


def scan(ranks: Path) -> List[RankId]:
    """Return the ranks that have a directory, and clean up directories that a dead agent created or removed only partly."""
    found = []
    for path in sorted(ranks.iterdir()):
        if path.name.startswith((_MADE, _GONE)):
            shutil.rmtree(path, ignore_errors=True)
            continue
        try:
            found.append(RankId.parse(path.name))
        except ValueError:
            continue
    return found
