"""The history of a branch for people: the changed objects of each commit, and its diff. Imports no kinds."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import Invalid
from reconciler.source.yaml.objects import key_of
from reconciler.source.yaml.parser import parse
from reconciler.source.yaml.pieces import decode, split

from .history import FIRST_PARENTS, Commit, Key, commits, pathspecs
from .repository import OPERATIONS, REF, ClusterRepo

OBJECTS_MAX = 30
"""The most objects that are listed for a commit."""
FILE_BYTES_MAX = 256 * 1024
"""Larger files are listed in a diff, and not shown."""
LINES_MAX = 3000
"""The most lines of a diff."""
LINE_CHARACTERS_MAX = 2000
NEWER_MAX = 1000
"""The most commits that are listed beyond the revision in force."""
ADDED, CHANGED, REMOVED = "added", "changed", "removed"


@dataclass(frozen=True, slots=True)
class Touched:
    """The change of an object by a commit."""

    key: Key
    action: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit, and its changes of objects."""

    commit: Commit
    touched: tuple[Touched, ...]
    left_out: int
    """The number of further documents that it changed."""


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The change of a file by a commit. Lines begin with ``+``, ``-``, a space, or ``@@``."""

    path: str
    action: str
    lines: tuple[str, ...]
    left_out: int
    """The number of further lines; -1 if the file is too large to be shown."""


def entries(
    repo: ClusterRepo, ref: str, limit: int, known: Mapping[str, Entry], begin: str = ""
) -> tuple[Entry, ...]:
    """Return the newest commits of a branch, newest first, up to ``begin``. ``known`` has earlier results by
    revision."""
    found = commits(repo, limit, ref, begin)
    new = [commit for commit in found if commit.revision not in known]
    names = {name for commit in new for _, *pair in commit.blobs for name in pair if name}
    contents = repo.blobs(sorted(names))
    made = {commit.revision: _entry(commit, contents) for commit in new}
    return tuple(made.get(commit.revision) or known[commit.revision] for commit in found)


def _entry(commit: Commit, contents: Mapping[str, bytes]) -> Entry:
    before: dict[str, None] = {}
    after: dict[str, None] = {}
    for _, old, new in commit.blobs:  # over all files, so that a moved document has not changed
        before |= dict.fromkeys(_documents(contents.get(old, b"")))
        after |= dict.fromkeys(_documents(contents.get(new, b"")))
    gone = [text for text in before if text not in after]
    come = [text for text in after if text not in before]
    was = dict.fromkeys(filter(None, map(_key, gone[:OBJECTS_MAX])))
    now = dict.fromkeys(filter(None, map(_key, come[:OBJECTS_MAX])))
    touched = [Touched(key, CHANGED if key in was else ADDED) for key in now]
    touched += [Touched(key, REMOVED) for key in was if key not in now]
    more = max(0, len(gone) - OBJECTS_MAX, len(come) - OBJECTS_MAX)
    return Entry(commit, tuple(touched), more)


def _documents(content: bytes) -> Iterator[str]:
    text = decode("", content)
    return (piece.body for piece in split(text)) if isinstance(text, str) else iter(())


def _key(text: str) -> Key | None:
    root = parse("", text).root
    return key_of(root.value) if root is not None else None


def found(repo: ClusterRepo, revision: str) -> tuple[str, Entry]:
    """Return the branch and the commit whose id begins with ``revision``. Raises ``Invalid``."""
    try:
        ref, name = REF, repo.resolve(revision)
    except Invalid:
        try:
            ref, name = OPERATIONS, repo.resolve(revision, OPERATIONS)
        except Invalid:
            text = f"{revision} is no commit of main or of the operations; list them with: reconciler history"
            raise Invalid(text) from None
    entry = next(iter(entries(repo, ref, 1, {}, name)), None)
    if entry is None or entry.commit.revision != name:
        raise Invalid(f"{name[:10]} changes no manifests")
    return ref, entry


def diffs(repo: ClusterRepo, commit: Commit) -> tuple[FileDiff, ...]:
    """Return the changes of a commit, in as many lines as people read."""
    sizes = repo.sizes(sorted({name for _, *pair in commit.blobs for name in pair if name}))
    small = (path for path, *pair in commit.blobs if all(sizes.get(n, 0) <= FILE_BYTES_MAX for n in pair))
    readable = [path for path in small if "\ufffd" not in path][:OBJECTS_MAX]  # git finds only UTF-8
    lines = _by_file(_patch(repo, commit.revision, readable)) if readable else []
    texts = dict(zip(readable, lines, strict=False))
    left = LINES_MAX
    diffs = []
    for path, old, new in commit.blobs:
        whole = texts.get(path)
        lines_shown = [] if whole is None else [line[:LINE_CHARACTERS_MAX] for line in whole[:left]]
        left -= len(lines_shown)
        action = ADDED if not old else REMOVED if not new else CHANGED
        rest = -1 if whole is None else len(whole) - len(lines_shown)
        diffs.append(FileDiff(path, action, tuple(lines_shown), rest))
    return tuple(diffs)


def shown(before: Mapping[str, bytes], after: Mapping[str, bytes | None]) -> tuple[FileDiff, ...]:
    """Return the changes that a commit of these files would make; None removes a file."""
    diffs = []
    for path, new in after.items():
        old = before.get(path)
        was, now = ((text or b"").decode("utf-8", "replace").splitlines() for text in (old, new))
        lines = list(difflib.unified_diff(was, now, lineterm=""))[2:]
        action = ADDED if old is None else REMOVED if new is None else CHANGED
        diffs.append(FileDiff(path, action, tuple(lines[:LINES_MAX]), max(0, len(lines) - LINES_MAX)))
    return tuple(diffs)


def _by_file(patch: str) -> list[list[str]]:
    """Return the lines of each file of a patch, in git's order, without its headers."""
    files: list[list[str]] = []
    begun = False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            files.append([])
            begun = False
        elif line.startswith("@@"):
            begun = True
            files[-1].append(line)
        elif begun and line[:1] in ("+", "-", " ", "\\"):
            files[-1].append(line)
    return files


# --- git -------------------------------------------------------------------------------------------


def message(repo: ClusterRepo, revision: str) -> str:
    return repo.git("show", "--no-patch", "--format=%B", revision, "--").strip()


def newer_than(repo: ClusterRepo, revision: str, ref: str) -> frozenset[str]:
    """Return the commits of a branch that change its files and are not part of ``revision``; all of them if that is
    empty."""
    known = (f"^{revision}",) if revision else ()
    return frozenset(
        repo.git("rev-list", f"--max-count={NEWER_MAX}", ref, *known, "--", *pathspecs(repo, ref)).split()
    )


def _patch(repo: ClusterRepo, revision: str, paths: Sequence[str]) -> str:
    shape = ("--patch", "--no-color", "--no-ext-diff", "--no-textconv", "--format=")
    return repo.git("--literal-pathspecs", "show", *FIRST_PARENTS, *shape, revision, "--", *paths)
