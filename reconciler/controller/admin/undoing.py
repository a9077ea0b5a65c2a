"""Says which commands take back what a commit did."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reconciler.resources import PLURALS
from reconciler.source.git.commit_log import ADDED, REMOVED, Entry
from reconciler.source.git.history import parent
from reconciler.source.git.repository import ClusterRepo
from reconciler.state import Desired

OBJECTS_MAX = 10
"""Most objects that a command is named for; more are undone with git."""


def of_manifests(repo: ClusterRepo, entry: Entry) -> Iterator[str]:
    """Yield what undoes a commit of ``main``: for a mirror, and for many objects, what to type in a clone."""
    revision = entry.commit.revision
    url = repo.mirrored()
    known = [each for each in entry.touched if each.key[0] in PLURALS]
    if url or entry.left_out or len(known) > OBJECTS_MAX:
        yield f"git clone {shlex.quote(url or str(repo.path))} clone"
        yield f"git -C clone revert {revision[:10]}"
        yield "git -C clone push"
        return
    before = parent(repo, revision)
    for each in known:
        name = shlex.quote(f"{each.key[0].lower()}/{each.key[1]}")
        if each.action == ADDED:
            yield f"reconciler delete {name}"
        elif before is not None:
            yield f"reconciler rollout undo {name} --to-revision={before[:10]}"


def of_operations(desired: Desired, entry: Entry) -> Iterator[str]:
    """Yield what undoes a commit of the operations, as far as it still has an effect."""
    present = {effect.operation.metadata.name for effect in desired.effects}
    for each in entry.touched:
        name = each.key[1]
        verb, _, target = name.partition(".")
        kind, _, own = target.partition(".")
        if (name in present) is (each.action != REMOVED) and own:
            yield from _undone(verb, kind, shlex.quote(own), name, each.action == REMOVED)


def _undone(verb: str, kind: str, own: str, name: str, removed: bool) -> Iterator[str]:
    whole = "--all" if kind == "cluster" else f"{kind}/{own}"
    match verb:
        case "cordon" | "drain":
            yield f"reconciler {verb if removed else 'uncordon'} {own}"
        case "suspend":
            yield f"reconciler {verb if removed else 'resume'} {whole}"
        case "stop":
            yield f"reconciler {verb if removed else 'start'}"
        case "scale" | "reboot" | "pause" | "resume" | "override" if not removed:
            yield f"reconciler undo {shlex.quote(name)}"
