"""Finds the commits that changed an object, and its earlier text."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.errors import Invalid, InvalidManifests, Refused
from reconciler.source.editing import Edit, Result, put_text
from reconciler.source.yaml.documents import Document, load, parse
from reconciler.source.yaml.pieces import decode, split

from .process import run_git
from .repository import ClusterRepo

COMMITS_MAX = 1000
"""Most commits to look back."""

Key = tuple[str, str]
Objects = dict[Key, tuple[Any, str]]
"""Plain value and text of each object, by key."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of ``main``. ``at`` is the author's date in seconds since the epoch."""

    revision: str
    author: str
    at: int
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


@dataclass(frozen=True, slots=True)
class Undo:
    """An edit that restores an object. ``note`` says if it undoes more or less than expected."""

    edit: Edit
    message: str
    note: str = ""


def commits(repo: ClusterRepo, limit: int = COMMITS_MAX) -> tuple[Commit, ...]:
    """Return the newest commits of ``main`` that changed YAML files, newest first; a merge counts as its changes."""
    found: list[Commit] = []
    words = iter(repo.first_parents(limit).split("\0"))
    blobs: list[tuple[str, str, str]] = []
    for word in words:
        entry = word.lstrip("\n")
        if entry.startswith(":"):
            _, _, old, new, _ = entry.split(" ")
            path = next(words)
            if not any(part.startswith(".") for part in path.split("/")):
                blobs.append((path, old.strip("0") and old, new.strip("0") and new))
                found[-1] = Commit(*_fields(found[-1]), tuple(blobs))
        elif entry:
            revision, author, at, subject = entry.split("\x1f", 3)
            found.append(Commit(revision, author, int(at), subject, ()))
            blobs = []
    return tuple(found)


def _fields(commit: Commit) -> tuple[str, str, int, str]:
    return commit.revision, commit.author, commit.at, commit.subject


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
        root = parse("", piece).root
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


# --- going back ------------------------------------------------------------------------------------


def undo(repo: ClusterRepo, files: Mapping[str, bytes], key: Key) -> Undo:
    """Revert the newest commit that changed an object.

    Works like `git revert` if the commit changed no other object and later commits do not conflict; else restores
    this object only. Raises ``Refused`` if the object did not exist before.
    """
    name = f"{key[0].lower()}/{key[1]}"
    newest = next(iter(changes(repo, key)), None)
    if newest is None:
        raise Refused("NoHistory", f'no commit has "{name}"; list them with: reconciler get all')
    revision = newest.commit.revision[:10]
    if newest.before is None:
        raise Refused(
            "NoHistory", f"{name} was created by {revision}, so there is no earlier version to go back to"
        )
    (document,) = load({newest.file: newest.before.encode()}, part=True)
    if newest.others:
        also = ", ".join(f"{kind.lower()}/{other}" for kind, other in newest.others[:5])
        note = f"{revision} also changed {also}, which stays; only {name} goes back"
        return Undo(put_text(files, document), f"Roll back {name} to before {revision}", note)
    edit = _reverted(repo, files, newest.commit, document)
    if edit is None:
        note = f"later commits changed the same lines as {revision}, so only the text of {name} goes back"
        return Undo(put_text(files, document), f"Roll back {name} to before {revision}", note)
    message = f'Revert "{newest.commit.subject}"\n\nThis reverts commit {newest.commit.revision}.\n'
    return Undo(edit, message)


def go_back(repo: ClusterRepo, files: Mapping[str, bytes], key: Key, revision: str) -> Undo:
    """Restore an object to its state at a revision. Raises ``Refused`` if it did not exist."""
    file, text = text_at(repo, revision, key)
    (document,) = load({file: text.encode()}, part=True)
    current = next((known for known in load(files) if known.key == key), None)
    if current is not None and current.manifest == document.manifest:
        return Undo(Edit({}, (Result(*key, "unchanged"),)), "")
    name = f"{key[0].lower()}/{key[1]}"
    return Undo(put_text(files, document), f"Roll back {name} to {revision[:10]}")


def _reverted(
    repo: ClusterRepo, files: Mapping[str, bytes], commit: Commit, document: Document
) -> Edit | None:
    """Return the files without the changes of a commit; None on a conflict, or if ``document`` is not restored."""
    contents = repo.blobs([name for _, *pair in commit.blobs for name in pair if name])
    changed: dict[str, bytes | None] = {}
    for path, old, new in commit.blobs:
        current, base, other = files.get(path), contents.get(new), contents.get(old)
        if current == base:
            changed[path] = other
        elif current is None or base is None or other is None:
            return None
        else:
            content = merged(current, base, other)
            if content is None:
                return None
            changed[path] = content
    edit = Edit(changed, (Result(*document.key, "configured"),))
    try:
        after = {known.key: known.manifest for known in load(edit.applied_to(files))}
    except InvalidManifests:
        return None
    return edit if after.get(document.key) == document.manifest else None


def merged(current: bytes, base: bytes, other: bytes) -> bytes | None:
    """Return ``current`` with the changes from ``base`` to ``other``; None on a conflict."""
    with tempfile.TemporaryDirectory(prefix="reconciler-merge-") as folder:
        paths = [Path(folder) / name for name in ("current", "base", "other")]
        for path, content in zip(paths, (current, base, other), strict=True):
            path.write_bytes(content)
        try:
            return run_git(("merge-file", "-p", "-q", *map(str, paths)))
        except Invalid:  # the exit status is the number of conflicts
            return None
