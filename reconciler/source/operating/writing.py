"""Commits the changes that a decision makes to operations and manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.errors import Conflict
from reconciler.source.git.repository import OPERATIONS, Author, ClusterRepo

from .change import Asking, Change, Decide, Files, Key, Now, ask_windows, message_of, now_of

if TYPE_CHECKING:
    from reconciler.resources import Manifest

COMMITS_TRIED = 5


@dataclass(frozen=True, slots=True)
class Written:
    """A commit of the operations; without a change, the present one."""

    revision: str | None
    change: Change


def write(
    repo: ClusterRepo, author: Author, asking: Asking, decide: Decide, clock: Callable[[], float]
) -> Written:
    """Commit the change of the present operations that ``decide`` returns. The same commit removes expired operations.

    After a concurrent commit, decides again on top of it, a few times; then raises ``Conflict``. ``clock`` returns seconds
    since the Unix epoch.
    """
    for attempt in range(1, COMMITS_TRIED + 1):
        head, now = seen(repo, asking, clock())
        change = decide(now)
        if not change.operations:
            return Written(head, change)
        ask_windows(now, change)
        try:
            made = repo.commit(head, now.changes(change), message_of(now, change), author, OPERATIONS)
            return Written(made, change)
        except Conflict:
            if attempt == COMMITS_TRIED:
                raise
    raise AssertionError("the loop returns or raises")


def seen(repo: ClusterRepo, asking: Asking, at: float) -> tuple[str | None, Now]:
    """Return the newest commit of the operations, and the input of a decision."""
    head, main = repo.head(OPERATIONS), repo.head()
    files = repo.read(main) if main else {}
    return head, now_of(files, repo.read(head, OPERATIONS) if head else {}, asking, at)


def in_force(repo: ClusterRepo) -> dict[Key, Manifest]:
    """Return the manifests in force without operations, sorted by kind and name. They are those of the revision in
    force, except that objects with a held change keep their earlier manifest. No commit has that mixture."""
    from reconciler.resources import KIND_NAMES
    from reconciler.source.kept import noted
    from reconciler.source.yaml.documents import load

    revision = repo.in_force() or repo.head()
    if revision is None:
        return {}
    whole = [(document.key, document.manifest) for document in load(repo.read(revision))]
    found: dict[Key, Manifest | None] = dict((*whole, *noted(repo, revision).items()))
    there = {key: manifest for key, manifest in found.items() if manifest is not None}
    return dict(sorted(there.items(), key=lambda entry: (KIND_NAMES.index(entry[0][0]), entry[0][1])))


def write_manifests(
    repo: ClusterRepo,
    author: Author,
    decide: Callable[[Files], Any],
    message: Callable[[tuple[Any, ...]], str],
    first: Mapping[str, bytes | None],
) -> tuple[str | None, Any]:
    """Commit the ``source.editing.Edit`` of the manifests that ``decide`` returns; the first commit also has ``first``.

    Returns the revision and the edit. After a concurrent commit, decides again on top of it, a few times; then raises
    ``Conflict``.
    """
    for attempt in range(1, COMMITS_TRIED + 1):
        head = repo.head()
        edit = decide(repo.read(head) if head else {})
        if not edit.changes:
            return head, edit
        changes = edit.changes if head else {**edit.changes, **first}
        try:
            text = message(edit.results) + _trailers(edit.results)
            return repo.commit(head, changes, text, author), edit
        except Conflict:
            if attempt == COMMITS_TRIED:
                raise
    raise AssertionError("the loop returns or raises")


def _trailers(results: Iterable[Any]) -> str:
    """Return the trailers that allow the removals and the jobs of a command."""
    from reconciler.resources.registry import RUN
    from reconciler.source.git.output import ALLOW_JOB, ALLOW_REMOVAL

    lines = [
        f"{ALLOW_JOB}: {word.removeprefix(RUN)}" if word.startswith(RUN) else f"{ALLOW_REMOVAL}: {word}"
        for word in allowed(results)
    ]
    return "\n\n" + "\n".join(lines) + "\n" if lines else ""


def allowed(results: Iterable[Any]) -> tuple[str, ...]:
    """Return the words by which the commit of a command allows what it does: the objects that it removes, and as
    ``run/NAME`` the jobs that it changes."""
    from reconciler.resources.registry import RUN

    said = {f"{each.kind.lower()}/{each.name}" for each in results if each.action == "deleted"}
    jobs = (each for each in results if each.kind == "Job" and each.action in ("created", "configured"))
    return tuple(sorted(said | {f"{RUN}{each.name}" for each in jobs}))
