"""Restores objects from earlier commits, as edits."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import Invalid, InvalidManifests, Refused
from reconciler.source.editing import Edit, Result, put_text
from reconciler.source.yaml.documents import Document, load
from reconciler.source.yaml.objects import is_json, objects_in

from .history import Change, Commit, Key, changes, parent, text_at
from .process import run_git
from .repository import ClusterRepo


@dataclass(frozen=True, slots=True)
class Undo:
    """An edit that restores an object. ``note`` reports if it undoes more or less than expected."""

    edit: Edit
    message: str
    note: str = ""
    undoes: Commit | None = None
    """The reverted commit; None if an object goes back to a given revision."""


def undo(repo: ClusterRepo, files: Mapping[str, bytes], key: Key) -> Undo:
    """Revert the newest commit that changed an object.

    Raises ``Refused`` for a deployment whose Model was changed later: that is the newest change of the served model.
    Works like `git revert` if the commit changed no other object and later commits do not conflict; else restores this
    object only. Raises ``Refused`` if the object did not exist before.
    """
    name = f"{key[0].lower()}/{key[1]}"
    newest = next(changes(repo, key), None)
    if newest is None:
        raise Refused("NoHistory", f'no commit has "{name}"; list them with: reconciler get all')
    revision = newest.commit.revision[:10]
    if newest.before is None:
        raise Refused(
            "NoHistory", f"{name} was created by {revision}, so there is no earlier version to go back to"
        )
    _refuse_older(repo, key, newest)
    (document,) = load({_file_for(newest.file, key): newest.before.encode()}, part=True)
    if newest.others:
        also = ", ".join(f"{kind.lower()}/{other}" for kind, other in newest.others[:5])
        note = f"{revision} also changed {also}, which stays; only {name} goes back"
    elif (edit := _reverted(repo, files, newest.commit, document)) is not None:
        message = f'Revert "{newest.commit.subject}"\n\nThis reverts commit {newest.commit.revision}.\n'
        return Undo(edit, message, undoes=newest.commit)
    else:
        note = f"later commits changed the same lines as {revision}, so only the text of {name} goes back"
    return Undo(put_text(files, document), f"Roll back {name} to before {revision}", note, newest.commit)


def _refuse_older(repo: ClusterRepo, key: Key, newest: Change) -> None:
    """Raise ``Refused`` if the Model of a deployment has a later change than the deployment itself."""
    objects = objects_in((newest.after or "").encode())
    spec = objects[key][0].get("spec") if key in objects else None
    if key[0] != "ModelDeployment" or not isinstance(spec, dict):
        return
    model = ("Model", str(spec.get("model")))
    later = next(changes(repo, model), None)
    if later is None or later.before is None or later.commit.revision == newest.commit.revision:
        return
    if repo.is_ancestor(newest.commit.revision, later.commit.revision):
        name, before = f"modeldeployment/{key[1]}", parent(repo, newest.commit.revision) or ""
        raise Refused(
            "NewerChange",
            f"the last change of {name} is {_named(newest.commit)}, and its model was changed later, by"
            f" {_named(later.commit)}; to undo that: reconciler rollout undo model/{model[1]}; to undo the older one all the"
            f" same: reconciler rollout undo {name} --to-revision={before[:10]}",
        )


def _file_for(file: str, key: Key) -> str:
    """Return the name for reading a text of the past: a former JSON file may be YAML by now."""
    return f"{key[0].lower()}-{key[1]}.yaml" if is_json(file) else file


def _named(commit: Commit) -> str:
    return f'{commit.revision[:10]} "{commit.subject}"'


def go_back(repo: ClusterRepo, files: Mapping[str, bytes], key: Key, revision: str) -> Undo:
    """Restore an object to its state at a revision. Raises ``Refused`` if it did not exist."""
    file, text = text_at(repo, revision, key)
    (document,) = load({_file_for(file, key): text.encode()}, part=True)
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
