"""Where the controller's loop reads the desired state: the cluster repo, or for trying things a folder."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import watchfiles

from reconciler.errors import Invalid, InvalidManifests, Unreachable

from .files import read_directory
from .git.repository import ClusterRepo
from .yaml.documents import Document, load

EMPTY = "empty"
"""The revision of a cluster repo before its first commit."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The desired state at one moment."""

    id: str
    """A commit, or ``dir-`` and a part of the hash of a folder's files, or ``empty``."""
    documents: tuple[Document, ...]


class Source(Protocol):
    """What the loop needs of a source. Calls do not overlap."""

    async def read(self) -> Revision:
        """The state now; cheap when nothing has changed.

        Raises ``InvalidManifests`` for what cannot be understood, ``Invalid`` and ``Unreachable`` for what
        cannot be read at all.
        """

    async def record_in_force(self, revision: str) -> None:
        """Note, beside the manifests, that a revision is in force. Raises ``Invalid`` and ``Unreachable``."""

    async def last_in_force(self) -> Revision | None:
        """What was noted last, where it was and can be read. Raises as ``read`` does."""

    def changes(self) -> AsyncIterator[None]:
        """Yield whenever it is worth reading again, until that has been done."""

    def describe(self) -> str:
        """What and where it is, for people."""


class _Loaded:
    """The newest documents, or what was wrong with them, so that an unchanged state is not parsed again."""

    def __init__(self) -> None:
        self.id: str | None = None
        self._outcome: Revision | InvalidManifests | None = None

    def revision(self, id: str, files: Callable[[], Mapping[str, bytes]]) -> Revision:
        """Revision ``id``, whose files are read only where it is another one than last time."""
        if self.id != id or self._outcome is None:
            try:
                self._outcome = Revision(id, load(files()))
            except InvalidManifests as invalid:
                self._outcome = invalid
            self.id = id
        if isinstance(self._outcome, InvalidManifests):
            raise InvalidManifests(self._outcome.problems)
        return self._outcome


class GitSource:
    """Branch ``main`` of the cluster repo.

    A push is announced to the controller by the hook; ``changes`` looks at the branch as well, every
    ``poll_seconds``, for a hook may fail. It speaks up for what it has found unread twice: between the move
    of the branch and the hook's word there is a moment, and the hook knows when the push came.
    """

    def __init__(self, repo: ClusterRepo, poll_seconds: float = 5.0) -> None:
        self._repo = repo
        self._poll_seconds = poll_seconds
        self._loaded = _Loaded()

    async def read(self) -> Revision:
        return await asyncio.to_thread(self._read)

    def _read(self) -> Revision:
        head = self._repo.head()
        if head is None:
            return self._loaded.revision(EMPTY, dict)
        return self._loaded.revision(head, lambda: self._repo.read(head))

    async def record_in_force(self, revision: str) -> None:
        await asyncio.to_thread(self._repo.keep, None if revision == EMPTY else revision)

    async def last_in_force(self) -> Revision | None:
        return await asyncio.to_thread(self._last_in_force)

    def _last_in_force(self) -> Revision | None:
        commit = self._repo.in_force()
        return None if commit is None else Revision(commit, load(self._repo.read(commit)))

    async def changes(self) -> AsyncIterator[None]:
        unread: str | None = None
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                head = await asyncio.to_thread(self._repo.head) or EMPTY
            except (Invalid, Unreachable):
                head = EMPTY  # looking again says why
            before, unread = unread, head if head != self._loaded.id else None
            if unread is not None and unread == before:
                yield

    def describe(self) -> str:
        return f"git {self._repo.path}"


class DirectorySource:
    """The YAML files of a folder, watched."""

    def __init__(self, path: Path, poll_seconds: float = 30.0, debounce_seconds: float = 0.1) -> None:
        self._path = path
        self._poll_seconds = poll_seconds
        self._debounce_seconds = debounce_seconds
        self._loaded = _Loaded()

    async def read(self) -> Revision:
        return await asyncio.to_thread(self._read)

    def _read(self) -> Revision:
        files = read_directory(self._path)
        return self._loaded.revision(f"dir-{_digest(files)}", lambda: files)

    async def record_in_force(self, revision: str) -> None:
        """A folder has only its present state."""

    async def last_in_force(self) -> Revision | None:
        return None

    async def changes(self) -> AsyncIterator[None]:
        while True:
            try:
                async with aclosing(self._watch()) as looks:
                    async for _ in looks:
                        yield
            except (OSError, RuntimeError):
                # No such folder now, or no more watches to be had of the system: look every second instead.
                await asyncio.sleep(min(1.0, self._poll_seconds))
                yield

    async def _watch(self) -> AsyncGenerator[None, None]:
        """Ends when the folder is no longer the one that is being watched: moved, removed or replaced."""
        watched = self._identity()
        notices = watchfiles.awatch(
            self._path,
            debounce=round(self._debounce_seconds * 1000),
            rust_timeout=round(self._poll_seconds * 1000),
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        async with aclosing(notices):
            async for _ in notices:
                yield
                if self._identity() != watched:
                    return

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def describe(self) -> str:
        return f"directory {self._path}"


def _digest(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode("utf-8", "surrogateescape"), files[name]):
            whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()[:12]
