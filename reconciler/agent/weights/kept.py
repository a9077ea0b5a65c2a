"""The fetched weights on this node, and the removal of unwanted ones."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Tuple

from reconciler.agent.system.files import read_json
from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.weights import (
    HUB,
    RECORD_BYTES_MAX,
    RECORD_NAME,
    KeptWeights,
    Record,
    is_hub_path,
    partial_folder,
)

STALE_SECONDS = 600.0
"""Time without a request after which weights may be removed, so that a Model removed by mistake can come back."""
_GONE = ".gone-"


class StoredWeights:
    """The weights below ``hub/`` of the node's models. Nothing else is ever examined or removed."""

    def __init__(self, models: Path, stale_seconds: float = STALE_SECONDS) -> None:
        self._models = models
        self._stale_seconds = stale_seconds
        self._requested: Dict[str, float] = {}
        """Time of the last request, or of the first scan that found it, by path and a monotonic clock."""
        self._removing: Optional[threading.Thread] = None

    def scan(self, requested: Iterable[str]) -> Tuple[KeptWeights, ...]:
        """Return the present weights; ``requested`` are those that a controller asks about."""
        now = time.monotonic()
        self._requested.update(dict.fromkeys((path for path in requested if is_hub_path(path)), now))
        found: List[KeptWeights] = []
        for repo in self._folders(self._models / HUB):
            names = {self._revision(each) for each in self._folders(repo)} - {""}
            found += [self._describe("/".join((HUB, repo.name, name)), now) for name in sorted(names)]
        there = {weights.path for weights in found}
        self._requested = {path: at for path, at in self._requested.items() if path in there}
        self._clear()
        return tuple(found)

    def remove(self, path: str) -> None:
        """Remove weights, complete or not. Raises ``OSError``, or ``ValueError`` for weights that were never fetched."""
        if not is_hub_path(path) or ".." in path.split("/"):
            raise ValueError("{!r}: expected hub/<repository>/<revision>".format(path))
        final = self._models / path
        for folder in (final, partial_folder(final)):
            with contextlib.suppress(
                FileNotFoundError
            ):  # first renamed in one step, then removed file by file
                folder.rename(folder.with_name(_GONE + folder.name))
        with contextlib.suppress(FileNotFoundError):
            final.with_name(".{}.lock".format(final.name)).unlink()
        self._clear()

    def _describe(self, path: str, now: float) -> KeptWeights:
        final = self._models / path
        complete = final.is_dir()
        folder = final if complete else partial_folder(final)
        stale = now - self._requested.setdefault(path, now) >= self._stale_seconds
        changed = 0.0
        with contextlib.suppress(OSError):
            changed = folder.stat().st_mtime
        return KeptWeights(path, str(final), complete, _size(folder), changed, stale)

    def _clear(self) -> None:
        """Remove renamed folders in the background: there may be hundreds of gigabytes."""
        if self._removing is not None and self._removing.is_alive():
            return
        gone = [
            each
            for repo in self._folders(self._models / HUB)
            for each in self._folders(repo)
            if each.name.startswith(_GONE)
        ]
        if gone:
            self._removing = threading.Thread(target=_remove, args=(gone,), daemon=True)
            self._removing.start()

    @staticmethod
    def _folders(path: Path) -> List[Path]:
        try:
            return sorted(each for each in path.iterdir() if each.is_dir() and not each.is_symlink())
        except OSError:
            return []

    @staticmethod
    def _revision(folder: Path) -> str:
        """Return the revision of a folder; empty if it has no weights."""
        name = folder.name
        if not name.startswith("."):
            return name
        return name[1 : -len(".partial")] if name.endswith(".partial") and not name.startswith(_GONE) else ""


def _size(folder: Path) -> int:
    try:
        record = from_wire(Record, read_json(folder / RECORD_NAME, RECORD_BYTES_MAX))
    except (OSError, ValueError, WireError):
        return 0
    return sum(file.size for file in record.files if file.name in record.verified)


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
