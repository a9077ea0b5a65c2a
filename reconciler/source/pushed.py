"""Judges a push as far as its commits and manifests tell: who knows the cluster says the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import InvalidManifests, Problem
from reconciler.resources.operation import Operation

from .git.output import changes_of
from .git.pushes import ALLOW, Push, examine, refuse_in_listing
from .git.repository import NO_COMMIT, OPERATIONS, REF, ClusterRepo
from .operations import load_operations
from .yaml.documents import Document, load
from .yaml.references import dangling


@dataclass(frozen=True, slots=True)
class Pushed:
    """A push that may be taken as far as its commits and manifests tell."""

    push: Push
    documents: tuple[Document, ...]
    allowed: frozenset[str]
    """The words of the ``Allow-Removal`` trailers of its commits."""
    operations: tuple[Operation, ...] = ()
    """Those of a push to their branch, which has no manifests."""


def read_push(repo: ClusterRepo, push: Push) -> Pushed:
    """Read a push. Raises ``Refused`` or ``InvalidManifests`` where it must not be taken.

    A name of an object that does not exist is refused if the push brings it, or takes that object away: what has been
    there before hinders nobody.
    """
    brought = examine(repo, push)
    files = repo.read(push.new, push.ref, brought.listing)
    if push.ref == OPERATIONS:
        return Pushed(push, (), brought.allowed, load_operations(files))
    return Pushed(push, _read(repo, push.old, files), brought.allowed)


def read_fetched(repo: ClusterRepo, old: str | None, new: str) -> Pushed:
    """Read what was fetched of a remote, whose ``main`` was at ``old``, as a push; of it, only the folder of the manifests
    counts. Raises ``Refused`` or ``InvalidManifests`` where it must not be taken.

    Earlier commits were taken by the remote: a large file that is gone again hinders nobody.
    """
    push = Push(old or NO_COMMIT, new, REF)
    allowed = frozenset() if old is None else removals_allowed(repo, old, new)
    listing = repo.tree(new)
    refuse_in_listing(listing)
    return Pushed(push, _read(repo, push.old, repo.read(new, listing=listing)), allowed)


def removals_allowed(repo: ClusterRepo, since: str, revision: str) -> frozenset[str]:
    """Return the words of the ``Allow-Removal`` trailers of the commits that ``revision`` has and ``since`` has not; none
    where these two have no commit in common. Raises ``Invalid`` if one of them is no commit here."""
    base = repo.merge_base(since, revision)
    return frozenset(changes_of(repo.changes(base, revision, ALLOW)).words) if base else frozenset()


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
    """Return what stays of a dangling name when lines are added above, or other objects."""
    return problem.file, problem.path, problem.text.partition(";")[0]
