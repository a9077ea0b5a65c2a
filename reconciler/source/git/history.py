"""Finds the commits that changed an object, and its earlier text. Imports no kinds: what lists commits starts quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.errors import Refused
from reconciler.source.yaml.parser import parse
from reconciler.source.yaml.pieces import decode, split

from .process import run_git
from .repository import REF, ClusterRepo

COMMITS_MAX = 1000
"""Most commits to look back."""
FIRST_PARENTS = ("--first-parent", "-m", "--no-renames", "--no-abbrev")
"""A merge counts as the changes that it brought to its branch."""

Key = tuple[str, str]
Objects = dict[Key, tuple[Any, str]]
"""Plain value and text of each object, by key."""


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


def commits(repo: ClusterRepo, limit: int = COMMITS_MAX, begin: str = REF) -> tuple[Commit, ...]:
    """Return the newest commits that changed YAML files, newest first; a merge counts as its changes. ``begin``: a branch,
    or a full commit id."""
    found: list[Commit] = []
    words = iter(_log(repo, limit, begin).split("\0"))
    blobs: list[tuple[str, str, str]] = []
    for word in words:
        entry = word.lstrip("\n")
        if entry.startswith(":"):
            _, _, old, new, _ = entry.split(" ")
            path = next(words)
            if not any(part.startswith(".") for part in path.split("/")):
                blobs.append((path, old.strip("0") and old, new.strip("0") and new))
                found[-1] = replace(found[-1], blobs=tuple(blobs))
        elif entry:
            revision, at, author, email, subject = entry.split("\x1f", 4)
            found.append(Commit(revision, int(at), author, email, subject, ()))
            blobs = []
    return tuple(found)


def _log(repo: ClusterRepo, limit: int, begin: str) -> str:
    """Return git's raw log of the YAML files that each commit changed."""
    if begin.startswith("refs/") and repo.head(begin) is None:
        return ""
    fields = "--format=%H%x1f%at%x1f%an%x1f%ae%x1f%s"
    shape = (*FIRST_PARENTS, "--raw", "-z", f"-n{limit}", fields)
    return git(repo, "log", *shape, begin, "--", "*.yaml", "*.yml")


def git(repo: ClusterRepo, *arguments: str) -> str:
    """Return what git prints about a repository. Every name among the arguments is a full one."""
    located = (f"--git-dir={repo.path}", *arguments)
    return run_git(located, environment=repo.environment).decode("utf-8", "replace")


def changes(repo: ClusterRepo, key: Key) -> tuple[Change, ...]:
    """Return the commits that changed an object's meaning, newest first; changed comments do not count."""
    log = commits(repo)
    names = {name for commit in log for _, *pair in commit.blobs for name in pair if name}
    mentions = key[1].encode()
    contents = repo.blobs(sorted(names))
    parsed: dict[str, Objects] = {}

    def objects(name: str) -> Objects:
        if name and name not in parsed:
            parsed[name] = objects_in(contents[name])
        return parsed.get(name, {})

    found = []
    for commit in log:
        if not any(mentions in contents.get(name, b"") for _, *pair in commit.blobs for name in pair):
            continue
        before: dict[Key, tuple[Any, str, str]] = {}
        after: dict[Key, tuple[Any, str, str]] = {}
        for path, old, new in commit.blobs:
            before |= {known: (*entry, path) for known, entry in objects(old).items()}
            after |= {known: (*entry, path) for known, entry in objects(new).items()}
        differing = [k for k in before | after if _value(before, k) != _value(after, k)]
        if key in differing:
            was, now = before.get(key), after.get(key)
            file = (was or now or (None, "", ""))[2]
            others = tuple(other for other in differing if other != key)
            found.append(Change(commit, file, was and was[1], now and now[1], others))
    return tuple(found)


def _value(objects: Mapping[Key, tuple[Any, str, str]], key: Key) -> Any:
    return objects[key][0] if key in objects else None


def objects_in(content: bytes) -> Objects:
    """Return the objects in a file of any age; unreadable parts are skipped."""
    text = decode("", content)
    found: Objects = {}
    for piece in split(text) if isinstance(text, str) else ():
        root = parse("", piece.body).root
        value: Any = root.value if root is not None else None
        metadata = value.get("metadata") if isinstance(value, dict) else None
        if isinstance(metadata, dict):
            found[str(value.get("kind")), str(metadata.get("name"))] = (value, piece.body)
    return found


def text_at(repo: ClusterRepo, revision: str, key: Key) -> tuple[str, str]:
    """Return file and text of an object at a revision. Raises ``Refused`` if it did not exist."""
    for file, content in repo.read(revision).items():
        found = objects_in(content).get(key)
        if found is not None:
            return file, found[1]
    raise Refused("NotFound", f'there is no {key[0].lower()} "{key[1]}" in revision {revision[:10]}')
