"""Sources of the desired state for the controller's loop: the cluster repository, or a folder for experiments."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import watchfiles

from reconciler.errors import Invalid, InvalidManifests, Refused, Unreachable
from reconciler.resources import Manifest
from reconciler.state.identity import ObjectKey
from reconciler.state.operations import Operations

from .files import read_directory
from .git import hooks
from .git.layout import damage
from .git.pushes import Push, quarantined
from .git.repository import EMPTY, IN_FORCE, KEPT, OPERATIONS, OPERATIONS_IN_FORCE, ClusterRepo
from .kept import noted, noted_folder, text_of
from .operations import load_operations
from .pushed import Pushed, read_push, words_allowed
from .yaml.documents import Document, load

WATCH_SECONDS = 1.0
"""Time between two looks whether a watched folder is still the same."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Revision:
    """The manifests at one moment."""

    id: str
    """A commit id, or ``dir-`` and part of a hash of a folder's files, or ``empty``."""
    documents: tuple[Document, ...]
    refused: str = ""
    """The reason that a newer revision of the remote repository was refused; empty if there is none."""
    folder: str = ""
    """Folder of the commit with the manifests; empty for all of it."""
    kept: Mapping[ObjectKey, Manifest | None] = field(default_factory=dict)
    """For the last recorded revision: its kept objects, as ``record_in_force`` got them."""


class Source(Protocol):
    """A source as the loop uses it. Calls do not overlap. The defaults are those of a source without commits."""

    async def read(self) -> Revision:
        """Return the current state; cheap if nothing has changed.

        Raises ``InvalidManifests`` for wrong manifests, ``Invalid`` and ``Unreachable`` if the source cannot be read.
        """

    async def operations(self) -> Operations:
        """Return the current operations, which have their own place. Raises like ``read``."""
        return Operations()

    async def record_in_force(
        self, revision: str, operations: str, kept: Mapping[ObjectKey, Manifest | None], folder: str
    ) -> None:
        """Record, next to the manifests, the revision and the commit of operations in force. ``kept``: the objects
        whose earlier manifests stay in force, None for an object that stays out. ``folder``: of the revision. Raises
        ``Invalid`` and ``Unreachable``."""

    async def last_in_force(self) -> Revision | None:
        """Return the last recorded revision, if it can be read. Raises like ``read``."""
        return None

    async def last_operations(self) -> Operations:
        """Return the last recorded operations. Raises like ``read``."""
        return Operations()

    async def at(self, revision: str) -> Revision | None:
        """Return an earlier revision, if this source has it. Raises like ``read``."""
        return None

    async def words_allowed(self, since: str, revision: str) -> frozenset[str]:
        """Return the words by which commits that are in ``revision`` and not in ``since`` allow removals and jobs."""
        return frozenset()

    async def judge(self, repository: str, quarantine: str, push: Push) -> Pushed:
        """Read a push that git has not accepted yet. Raises ``Refused`` and ``InvalidManifests`` if it must not be
        accepted; ``Refused`` with ``Elsewhere`` if it is not to this source."""

    async def restore(self) -> Sequence[str]:
        """Restore the known parts that the repository has lost, and return their paths. Raises ``OSError``, ``Invalid``
        and ``Unreachable``."""
        return ()

    async def tidy(self) -> Sequence[str]:
        """Remove the leftovers of killed processes, and return their paths. Raises ``OSError``."""
        return ()

    async def mend(self) -> Sequence[str]:
        """Correct the settings and hooks without which pushes are accepted unjudged, and return the names of the
        corrected ones. Raises ``OSError``, ``Invalid`` and ``Unreachable``."""
        return ()

    async def examine(self) -> str:
        """Return the damage of the repository, for people; empty if none is found, or none can be. Raises
        ``Unreachable`` if that takes too long."""
        return ""

    def changes(self) -> AsyncIterator[None]:
        """Yield whenever there may be a new state to read, until it has been read."""

    def repository(self) -> ClusterRepo | None:
        """Return the repository with the commits; None for a source that has only its present state."""
        return None

    def describe(self) -> str:
        """Return a description of the source for people."""


class _Loaded(Generic[T]):
    """The newest documents or their problems, so that an unchanged state is not parsed again."""

    def __init__(self) -> None:
        self.id: str | None = None
        self._outcome: T | InvalidManifests | None = None

    def get(self, id: str, read: Callable[[], T]) -> T:
        """Return the result of ``read`` for ``id``; it is called only if ``id`` has changed."""
        if self.id != id or self._outcome is None:
            try:
                self._outcome = read()
            except InvalidManifests as invalid:
                self._outcome = invalid
            self.id = id
        if isinstance(self._outcome, InvalidManifests):
            raise InvalidManifests(self._outcome.problems)
        return self._outcome


class GitSource:
    """Branches ``main`` and ``operations`` of the cluster repository.

    The hook announces a push to the controller. Because a hook may fail, ``changes`` also checks the branches every
    ``poll_seconds``. It yields only for a commit that it has found unread twice, because the hook, which knows
    the time of the push, may just be about to announce it.
    """

    def __init__(
        self, repo: ClusterRepo, poll_seconds: float = 5.0, refused: Callable[[], str] = lambda: ""
    ) -> None:
        """``refused`` returns the reason that a newer revision of a remote was refused."""
        self._repo = repo
        self.refused = refused
        self._poll_seconds = poll_seconds
        self._loaded: _Loaded[Revision] = _Loaded()
        self._operations: _Loaded[Operations] = _Loaded()
        self._judged: tuple[str, Pushed] | None = None
        """The folder and the last push that was read: once git has accepted it, it is not read again."""

    async def read(self) -> Revision:
        found = await asyncio.to_thread(self._read)
        refused = self.refused()
        return replace(found, refused=refused) if refused else found

    async def judge(self, repository: str, quarantine: str, push: Push) -> Pushed:
        if repository != os.path.realpath(self._repo.path):
            raise Refused("Elsewhere", f"the controller reads {self._repo.path}")
        folder, pushed = await asyncio.to_thread(self._judge, quarantine, push)
        if push.ref != OPERATIONS:
            self._judged = folder, pushed
        return pushed

    def _judge(self, quarantine: str, push: Push) -> tuple[str, Pushed]:
        self._repo.wait_until_free()
        return self._repo.folder(), read_push(quarantined(self._repo, quarantine), push)

    async def words_allowed(self, since: str, revision: str) -> frozenset[str]:
        try:
            return await asyncio.to_thread(words_allowed, self._repo, since, revision)
        except Invalid:
            return frozenset()  # one of them is missing: no commit allows anything

    def _documents(self, revision: str, folder: str) -> tuple[Document, ...]:
        if self._judged is not None:
            where, pushed = self._judged
            if (where, pushed.push.new) == (folder, revision):
                return pushed.documents
        return load(self._repo.read(revision, folder=folder))

    def _read(self) -> Revision:
        head, folder = self._repo.head(), self._repo.folder()
        if head is None:
            return self._loaded.get(EMPTY, lambda: Revision(EMPTY, ()))
        return self._loaded.get(
            _named(head, folder), lambda: Revision(head, self._documents(head, folder), folder=folder)
        )

    async def operations(self) -> Operations:
        return await asyncio.to_thread(
            lambda: self._operations_at(self._repo.head(OPERATIONS), self._operations)
        )

    async def last_operations(self) -> Operations:
        return await asyncio.to_thread(
            lambda: self._operations_at(self._repo.in_force(OPERATIONS_IN_FORCE), _Loaded())
        )

    def _operations_at(self, commit: str | None, loaded: _Loaded[Operations]) -> Operations:
        if commit is None:
            return loaded.get(EMPTY, Operations)
        return loaded.get(
            commit, lambda: Operations(commit, load_operations(self._repo.read(commit, OPERATIONS)))
        )

    async def record_in_force(
        self, revision: str, operations: str, kept: Mapping[ObjectKey, Manifest | None], folder: str
    ) -> None:
        noted = {
            IN_FORCE: None if revision == EMPTY else revision,
            KEPT: text_of(revision, kept, folder),
            OPERATIONS_IN_FORCE: operations or None,
        }
        await asyncio.to_thread(self._repo.keep, noted)

    async def last_in_force(self) -> Revision | None:
        return await asyncio.to_thread(self._last_in_force)

    async def at(self, revision: str) -> Revision | None:
        if revision == EMPTY:
            return Revision(EMPTY, ())
        return await asyncio.to_thread(self._at, revision)

    async def restore(self) -> Sequence[str]:
        return await asyncio.to_thread(self._repo.restore)

    async def tidy(self) -> Sequence[str]:
        return await asyncio.to_thread(self._repo.tidy)

    async def mend(self) -> Sequence[str]:
        return await asyncio.to_thread(hooks.mend, self._repo.path, hooks.command())

    async def examine(self) -> str:
        return await asyncio.to_thread(damage, self._repo.path)

    def _last_in_force(self) -> Revision | None:
        commit = self._repo.in_force()
        if commit is None:
            return None
        return replace(self._at(commit), kept=noted(self._repo, commit))

    def _at(self, commit: str) -> Revision:
        """Return a revision with its recorded folder."""
        told = noted_folder(self._repo, commit)
        folder = self._repo.folder() if told is None else told
        return Revision(commit, load(self._repo.read(commit, folder=folder)), folder=folder)

    async def changes(self) -> AsyncIterator[None]:
        unread: tuple[str, str] | None = None
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                heads = await asyncio.to_thread(self._heads)
            except (Invalid, Unreachable):
                heads = EMPTY, EMPTY  # the next read raises the reason
            before, unread = unread, heads if heads != (self._loaded.id, self._operations.id) else None
            if unread is not None and unread == before:
                yield

    def _heads(self) -> tuple[str, str]:
        head = self._repo.head()
        main = _named(head, self._repo.folder()) if head else EMPTY
        return main, self._repo.head(OPERATIONS) or EMPTY

    def repository(self) -> ClusterRepo | None:
        return self._repo

    def describe(self) -> str:
        return f"git {self._repo.path}"


class DirectorySource(Source):
    """The YAML files of a folder, watched."""

    def __init__(self, path: Path, poll_seconds: float = 30.0, debounce_seconds: float = 0.1) -> None:
        self._path = path
        self._poll_seconds = poll_seconds
        self._debounce_seconds = debounce_seconds
        self._loaded: _Loaded[Revision] = _Loaded()

    async def read(self) -> Revision:
        return await asyncio.to_thread(self._read)

    def _read(self) -> Revision:
        files = read_directory(self._path)
        name = f"dir-{_digest(files)}"
        return self._loaded.get(name, lambda: Revision(name, load(files)))

    async def record_in_force(
        self, revision: str, operations: str, kept: Mapping[ObjectKey, Manifest | None], folder: str
    ) -> None:
        """Do nothing: a folder has only its present state."""

    async def judge(self, repository: str, quarantine: str, push: Push) -> Pushed:
        raise Refused("Elsewhere", f"the controller reads {self.describe()}: a push has no effect")

    async def changes(self) -> AsyncIterator[None]:
        while True:
            try:
                async with aclosing(self._watch()) as looks:
                    async for _ in looks:
                        yield
            except (OSError, RuntimeError):
                # The folder is missing, or the system allows no more watches: check every second instead.
                await asyncio.sleep(min(1.0, self._poll_seconds))
                yield

    async def _watch(self) -> AsyncGenerator[None, None]:
        """Yield changes until the watched folder is moved, removed or replaced. The first yield, at most a second after the
        beginning, is for a change between the last reading and the beginning: nobody else tells of that."""
        watched = self._identity()
        changes = watchfiles.awatch(
            self._path,
            debounce=round(self._debounce_seconds * 1000),
            rust_timeout=round(min(WATCH_SECONDS, self._poll_seconds) * 1000),
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        async with aclosing(changes):
            loop, looked_at = asyncio.get_running_loop(), -math.inf
            async for changed in changes:
                moved = self._identity() != watched
                if changed or moved or loop.time() - looked_at >= self._poll_seconds:
                    looked_at = loop.time()
                    yield
                if moved:
                    return

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def describe(self) -> str:
        return f"directory {self._path}"


def _named(commit: str, folder: str) -> str:
    return f"{commit}:{folder}"


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode("utf-8", "surrogateescape"), files[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:12]
