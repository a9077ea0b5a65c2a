"""Fetches the artifacts of runs from nodes into the home of the controller: ``FOLDER/JOB/RUN/RANK/PATH``.

A job may have made any files with any names. Only regular files with plain relative paths are taken, and nothing is ever
written through a link. A file that is there already is not fetched again: a fetch continues after an interruption.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from reconciler.errors import Refused, Unreachable, few_names
from reconciler.state import JobName, NodeName
from reconciler.state.identity import rank_id
from reconciler.state.job_steps import FetchArtifacts
from reconciler.state.jobs import Artifacts, Fetched
from reconciler.wire.codec import WireError
from reconciler.wire.launch import RankId

FILES_MAX = 10_000
BYTES_MAX = 10 * 2**30
"""Most files of a run, and most bytes of them together."""
RUNS_KEPT = 10
"""The newest runs of a job whose artifacts are kept."""
PIECE_BYTES = 2**20
PATH_BYTES_MAX, NAME_BYTES_MAX = 512, 255
PROBLEMS_SHOWN = 5
"""Most files to name that could not be fetched."""
TEXT_MAX = 1000
_PART = ".part-"
"""Beginning of the names of files that are not complete."""
_HERE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Source(Protocol):
    """The nodes that have artifacts. Every method raises ``Unreachable`` or ``Refused``."""

    async def listed(self, node: NodeName, rank: RankId) -> tuple[Sequence[tuple[str, int]], Sequence[str]]:
        """Return path and size in bytes of each artifact of a rank, and what its node leaves out and why."""

    async def piece(self, node: NodeName, rank: RankId, path: str, offset: int, bytes_max: int) -> bytes:
        """Return bytes of an artifact from ``offset`` on; none at its end."""


async def fetch(step: FetchArtifacts, source: Source, folder: Path, patient: bool = True) -> Artifacts:
    """Fetch all artifacts of a run, and remove those of old runs. Return what is there, and what is missing and why.

    Raises ``Unreachable`` if a node gave no answer, after all others have been asked; if not ``patient``, its artifacts
    are missing instead. Raises ``OSError`` if this machine's disk refuses a write.
    """
    fetched, lost = _Fetched(), list[Unreachable]()
    place = folder / step.id.job / str(step.id.index)
    await asyncio.to_thread(_prepare, place)
    for rank, node in enumerate(step.nodes):
        try:
            await _of_rank(source, node, rank_id(step.id, step.epoch, rank), place / str(rank), fetched)
        except Unreachable as error:
            lost.append(error)
            fetched.problems.append(f"rank {rank}: {node} gave no answer")
        except (Refused, WireError) as error:
            fetched.problems.append(f"rank {rank} on {node}: {error}")
    if lost and patient:
        raise lost[0]
    await asyncio.to_thread(keep_newest, folder, step.id.job)
    return fetched.artifacts


def keep_newest(folder: Path, job: JobName, runs: int = RUNS_KEPT) -> None:
    """Remove the artifacts of all but the newest runs of a job."""
    with suppress(FileNotFoundError):
        there = sorted(int(each.name) for each in (folder / job).iterdir() if each.name.isdecimal())
        for number in there[:-runs]:
            shutil.rmtree(folder / job / str(number))


def refused(path: str) -> str:
    """Return why a path is not taken; empty if it is."""
    parts = path.split("/")
    if path.startswith("/"):
        return "its path is not relative"
    if any(part in ("", ".", "..") for part in parts):
        return 'its path has a part that is empty, "." or ".."'
    if not path.isprintable():
        return "its name has control characters"
    if parts[0].startswith(_PART):
        return f"its name begins with {_PART}"
    try:
        written = path.encode()
    except UnicodeEncodeError:
        return "its name is no UTF-8"
    if len(written) > PATH_BYTES_MAX or any(len(part.encode()) > NAME_BYTES_MAX for part in parts):
        return "its name is too long"
    return ""


@dataclass(slots=True)
class _Fetched:
    """The files that were fetched so far."""

    files: int = 0
    size: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def artifacts(self) -> Artifacts:
        shown = few_names(self.problems, PROBLEMS_SHOWN) if self.problems else ""
        state = Fetched.PARTLY if self.problems else Fetched.DONE
        return Artifacts(state, self.files, self.size, shown[:TEXT_MAX])


async def _of_rank(source: Source, node: NodeName, rank: RankId, place: Path, fetched: _Fetched) -> None:
    """Fetch the artifacts of one rank, one after the other."""
    known = set[str]()
    files, left_out = await source.listed(node, rank)
    fetched.problems += [f"rank {rank.rank}: {each}" for each in left_out]
    for path, size in files:
        alike = unicodedata.normalize("NFC", path).casefold()
        why = refused(path)
        if not why and alike in known:  # one file, where the disk ignores case
            why = "another file has this name in other letters"
        if not why and (fetched.files >= FILES_MAX or fetched.size + max(0, size) > BYTES_MAX):
            why = f"more than {FILES_MAX} files or {BYTES_MAX // 2**30} GiB of a run are not fetched"
        known.add(alike)
        if not why:
            try:
                got = await _file(source, node, rank, path, size, place)
            except Refused as error:
                why = str(error)
            except (NotADirectoryError, IsADirectoryError, FileExistsError):
                why = "something else is in its place"
            else:
                fetched.files, fetched.size = fetched.files + 1, fetched.size + got
        if why:
            fetched.problems.append(f"{path!a} of rank {rank.rank}: {why}")


async def _file(source: Source, node: NodeName, rank: RankId, path: str, size: int, place: Path) -> int:
    """Fetch one file unless it is there, and return its size. Raises ``Refused`` if the node has less of it, or more."""
    draft = f"{_PART}{sha256(path.encode()).hexdigest()[:16]}"
    if await asyncio.to_thread(_size, place, path) == size:
        return size
    offset = await asyncio.to_thread(_size, place, draft) or 0
    if offset > size:
        await asyncio.to_thread(_write, place, draft, 0, b"")
        offset = 0
    while offset < size:
        piece = await source.piece(node, rank, path, offset, min(PIECE_BYTES, size - offset))
        if not piece or len(piece) > size - offset:
            raise Refused("Changed", f"it changed while it was read: {size} bytes were listed")
        await asyncio.to_thread(_write, place, draft, offset, piece)
        offset += len(piece)
    if not size:
        await asyncio.to_thread(_write, place, draft, 0, b"")
    await asyncio.to_thread(_settle, place, draft, path)
    return size


# --- files, without links ----------------------------------------------------------------------------


def _prepare(place: Path) -> None:
    """Make the folder of a run."""
    for each in (place.parent.parent, place.parent, place):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        if each.is_symlink():
            raise OSError(f"{each} is a link; remove it")


@contextmanager
def _folder(place: Path, parts: Sequence[str]) -> Iterator[int]:
    """Open a folder below that of a run, which is made; no part of it may be a link."""
    opened = os.open(place.parent, _HERE)
    try:
        for part in (place.name, *parts):
            with suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=opened)
            inner = os.open(part, _HERE, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)


def _size(place: Path, path: str) -> int | None:
    """Return the size of a file; None if there is none."""
    *parts, name = path.split("/")
    with _folder(place, parts) as folder:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None


def _write(place: Path, name: str, offset: int, piece: bytes) -> None:
    """Write a piece of a file, which ends with it."""
    with _folder(place, ()) as folder:
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with os.fdopen(file, "wb") as stream:
            stream.truncate(offset)
            stream.seek(offset)
            stream.write(piece)


def _settle(place: Path, draft: str, path: str) -> None:
    """Give a complete file its name. A link in its place is replaced, and not followed."""
    *parts, name = path.split("/")
    with _folder(place, ()) as here, _folder(place, parts) as there:
        os.replace(draft, name, src_dir_fd=here, dst_dir_fd=there)
