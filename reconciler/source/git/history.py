"""Finds the commits that changed an object, and its earlier text. Imports no kinds, so that commands that list commits
start quickly."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reconciler.errors import InvalidManifests, Refused
from reconciler.source.yaml.objects import objects_in
from reconciler.source.yaml.pieces import ENDINGS, Beside, counts, decode, split

from .repository import REF, ClusterRepo

COMMITS_AT_ONCE = 500
FIRST_PARENTS = ("--first-parent", "-m", "--no-renames", "--no-abbrev")
"""A merge counts as the changes that it brings to its branch."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit. ``at`` is the author's date in seconds since the epoch."""

    revision: str
    at: int
    author: str
    email: str
    subject: str
    blobs: tuple[tuple[str, str, str], ...]
    """The changed YAML files: path, and blob names before and after; an empty name if there was no file."""


@dataclass(frozen=True, slots=True)
class Change:
    """A commit that changed an object: its text before and after; None if it did not exist."""

    commit: Commit
    file: str
    before: str | None
    after: str | None
    others: tuple[Key, ...]
    """The other objects that the commit changed."""


def commits(
    repo: ClusterRepo,
    limit: int = COMMITS_AT_ONCE,
    ref: str = REF,
    begin: str = "",
    file: str = "",
    skip: int = 0,
) -> tuple[Commit, ...]:
    """Return the newest commits of a branch that changed files which count, newest first; a merge counts as its changes.

    ``begin``: a full commit id, by default the head. ``file``: only commits that changed this file. ``skip``: the
    number of newest commits to leave out.
    """
    found: list[Commit] = []
    words = iter(_log(repo, limit, ref, begin, file, skip).split("\0"))
    blobs: list[tuple[str, str, str]] = []
    folder = repo.folder(ref)
    for word in words:
        entry = word.lstrip("\n")
        if entry.startswith(":"):
            _, _, old, new, _ = entry.split(" ")
            path = next(words)
            if counts(path) and path.startswith(folder and f"{folder}/"):
                blobs.append((path, old.strip("0") and old, new.strip("0") and new))
                found[-1] = replace(found[-1], blobs=tuple(blobs))
        elif entry:
            revision, at, author, email, subject = entry.split("\x1f", 4)
            found.append(Commit(revision, int(at), author, email, subject, ()))
            blobs = []
    return tuple(found)


def _log(repo: ClusterRepo, limit: int, ref: str, begin: str, file: str, skip: int) -> str:
    """Return git's raw log of the files that each commit changed."""
    if not begin and repo.head(ref) is None:
        return ""
    fields = "--format=%H%x1f%at%x1f%an%x1f%ae%x1f%s"
    shape = (*FIRST_PARENTS, "--raw", "-z", "--full-diff", f"-n{limit}", f"--skip={skip}", fields)
    wanted = (f":(top,literal){file}",) if file and "\ufffd" not in file else pathspecs(repo, ref)
    return repo.git("log", *shape, begin or ref, "--", *wanted)


def pathspecs(repo: ClusterRepo, ref: str) -> tuple[str, ...]:
    """Return git's names of all files that count on a branch, and of those whose names begin with a dot."""
    folder = repo.folder(ref)
    literal = re.sub(r"([*?\[\\])", r"\\\1", f"{folder}/" if folder else "")
    return tuple(f":(top){literal}*{ending}" for ending in ENDINGS)


def changes(repo: ClusterRepo, key: Key) -> Iterator[Change]:
    """Yield the commits that changed an object's meaning, newest first; changed comments do not count.

    It asks git for the commits of the file that has the object, and skips all others. Only for periods in which no file
    had it, it reads every commit.
    """
    begin = repo.head()
    while begin is not None:
        file = _file_of(repo, begin, key)
        for commit, contents in _touching(repo, begin, file, key):
            change, moved = _change(commit, contents, key)
            if change is not None:
                yield change
            if moved:
                begin = parent(repo, commit.revision)
                break
        else:
            return


def _touching(
    repo: ClusterRepo, begin: str, file: str, key: Key
) -> Iterator[tuple[Commit, Mapping[str, bytes]]]:
    """Yield the commits that changed the text of an object, with the contents of all files that they changed. ``file``
    has the object; empty if no file has it."""
    word = re.compile(rf"(?<![\w.-]){re.escape(key[1])}(?![\w.-])")
    for skip in itertools.count(0, COMMITS_AT_ONCE):
        found = commits(repo, COMMITS_AT_ONCE, begin=begin, file=file, skip=skip)
        texts = _contents(repo, [each for commit in found for each in commit.blobs if file in ("", each[0])])
        pieces = {name: _mentioning(text, word) for name, text in texts.items()}
        touching = [
            commit
            for commit in found
            if any(pieces.get(old) != pieces.get(new) for _, old, new in commit.blobs)
        ]
        contents = texts | _contents(repo, [each for commit in touching for each in commit.blobs])
        yield from ((commit, contents) for commit in touching)
        if len(found) < COMMITS_AT_ONCE:
            return


def _contents(repo: ClusterRepo, blobs: Sequence[tuple[str, str, str]]) -> dict[str, bytes]:
    return repo.blobs(sorted({name for _, *pair in blobs for name in pair if name}))


def _mentioning(content: bytes, word: re.Pattern[str]) -> tuple[str, ...] | None:
    """Return the documents that have a word; None if there are none, or no such file."""
    text = decode("", content)
    found = [piece.body for piece in split(text) if word.search(piece.body)] if isinstance(text, str) else []
    return tuple(found) or None


def _file_of(repo: ClusterRepo, revision: str, key: Key) -> str:
    """Return the file that has an object at a revision; empty if none has."""
    try:
        files = repo.read(revision)
    except InvalidManifests:  # before the folder of the manifests existed, or with too many files
        return ""
    name = key[1].encode()
    texts = ((file, text) for file, text in files.items() if not isinstance(text, Beside))
    return next((file for file, text in texts if name in text and key in objects_in(text)), "")


def _change(commit: Commit, contents: Mapping[str, bytes], key: Key) -> tuple[Change | None, bool]:
    """Return a commit's change of an object, None if there was none, and whether the object's file has changed."""
    before: dict[Key, tuple[Any, str, str]] = {}
    after: dict[Key, tuple[Any, str, str]] = {}
    for path, old, new in commit.blobs:
        before |= {known: (*entry, path) for known, entry in objects_in(contents.get(old, b"")).items()}
        after |= {known: (*entry, path) for known, entry in objects_in(contents.get(new, b"")).items()}
    was, now = before.get(key), after.get(key)
    moved = (was and was[2]) != (now and now[2])
    differing = [k for k in before | after if _value(before, k) != _value(after, k)]
    if key not in differing:
        return None, moved
    file = (was or now or (None, "", ""))[2]
    others = tuple(other for other in differing if other != key)
    return Change(commit, file, was and was[1], now and now[1], others), moved


def _value(objects: Mapping[Key, tuple[Any, str, str]], key: Key) -> Any:
    return objects[key][0] if key in objects else None


def text_at(repo: ClusterRepo, revision: str, key: Key) -> tuple[str, str]:
    """Return file and text of an object at a revision. Raises ``Refused`` if it did not exist."""
    for file, content in repo.read(revision).items():
        found = None if isinstance(content, Beside) else objects_in(content).get(key)
        if found is not None:
            return file, found[1]
    raise Refused("NotFound", f'there is no {key[0].lower()} "{key[1]}" in revision {revision[:10]}')


def parent(repo: ClusterRepo, revision: str) -> str | None:
    """Return the first parent of a commit; None if it has none."""
    listed = repo.git("rev-list", "--parents", "--max-count=1", revision, "--").split()
    return listed[1] if len(listed) > 1 else None
