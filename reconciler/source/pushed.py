"""Judges a push by its commits and manifests alone. Further checks need the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import InvalidManifests, Problem
from reconciler.resources.operation import Operation

from .git.output import changes_of
from .git.pushes import Push, examine, refuse_in_listing
from .git.repository import EMPTY, NO_COMMIT, OPERATIONS, REF, ClusterRepo
from .operations import load_operations
from .yaml.documents import Document, load
from .yaml.references import dangling


@dataclass(frozen=True, slots=True)
class Pushed:
    """A push whose commits and manifests may be accepted."""

    push: Push
    documents: tuple[Document, ...]
    allowed: frozenset[str]
    """The words by which its commits allow removals and jobs (``git.output.Changes.words``)."""
    operations: tuple[Operation, ...] = ()
    """The operations of a push to their branch, which has no manifests."""


def read_push(repo: ClusterRepo, push: Push) -> Pushed:
    """Read a push. Raises ``Refused`` or ``InvalidManifests`` if it must not be accepted.

    A name of a missing object is refused if the push brings the name or removes the object. Earlier dangling names do
    not matter.
    """
    brought = examine(repo, push)
    files = repo.read(push.new, push.ref, brought.listing)
    if push.ref == OPERATIONS:
        return Pushed(push, (), brought.allowed, load_operations(files))
    return Pushed(push, _read(repo, push.old, files), brought.allowed)


def read_fetched(repo: ClusterRepo, old: str | None, new: str) -> Pushed:
    """Read a fetched commit as a push to a ``main`` at ``old``; only its folder of manifests counts. Raises ``Refused``
    or ``InvalidManifests`` if it must not be accepted.

    The remote accepted earlier commits: a large file that was removed again does not matter.
    """
    push = Push(old or NO_COMMIT, new, REF)
    allowed = words_allowed(repo, old or EMPTY, new)
    listing = repo.tree(new)
    refuse_in_listing(listing)
    return Pushed(push, _read(repo, push.old, repo.read(new, listing=listing)), allowed)


def words_allowed(repo: ClusterRepo, since: str, revision: str) -> frozenset[str]:
    """Return the words by which the commits that are in ``revision`` and not in ``since`` allow removals and jobs; none if
    the two have no commit in common. ``since`` may be ``EMPTY``. Raises ``Invalid`` if one of them is no commit here."""
    base = NO_COMMIT if since == EMPTY else repo.merge_base(since, revision)
    return frozenset(changes_of(repo.changes(base, revision)).words) if base else frozenset()


def _read(repo: ClusterRepo, old: str, files: Mapping[str, bytes]) -> tuple[Document, ...]:
    documents = load(files)
    missing = dangling(documents)
    if missing:
        known = _before(repo, old)
        added = tuple(problem for problem in missing if _named(problem) not in known)
        if added:
            raise InvalidManifests(added)
    return documents


def _before(repo: ClusterRepo, revision: str) -> set[tuple[str, str, str]]:
    """Return the dangling names of a commit."""
    if not revision.strip("0"):
        return set()
    try:
        problems: tuple[Problem, ...] = dangling(load(repo.read(revision)))
    except InvalidManifests:
        return set()
    return set(map(_named, problems))


def _named(problem: Problem) -> tuple[str, str, str]:
    """Return the parts of a dangling name that do not change when lines or other objects are added."""
    return problem.file, problem.path, problem.text.partition(";")[0]
