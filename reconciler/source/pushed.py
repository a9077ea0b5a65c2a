"""Judges a push as far as its commits and manifests tell: who knows the cluster says the rest."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.errors import InvalidManifests, Problem

from .git.pushes import Push, examine
from .git.repository import OPERATIONS, ClusterRepo
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


def read_push(repo: ClusterRepo, push: Push) -> Pushed:
    """Read a push. Raises ``Refused`` or ``InvalidManifests`` where it must not be taken.

    A name of an object that does not exist is refused if the push brings it, or takes that object away: what has been
    there before hinders nobody.
    """
    brought = examine(repo, push)
    files = repo.read(push.new, brought.listing)
    if push.ref == OPERATIONS:
        load_operations(files)
        return Pushed(push, (), brought.allowed)
    documents = load(files)
    missing = dangling(documents)
    if missing:
        known = _before(repo, push.old)
        added = tuple(problem for problem in missing if _named(problem) not in known)
        if added:
            raise InvalidManifests(added)
    return Pushed(push, documents, brought.allowed)


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
