"""Names the commands that undo a commit, and those of them that the console carries out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.resources import PLURALS
from reconciler.resources.verbs import ACTS, UNDO, VERBS, words_for
from reconciler.source.git.commit_log import ADDED, REMOVED, Entry
from reconciler.source.git.history import parent
from reconciler.source.git.repository import ClusterRepo
from reconciler.state import Desired
from reconciler.wire import answers

OBJECTS_MAX = 10
"""Most objects that a command is named for; more are undone with git."""


@dataclass(frozen=True, slots=True)
class Way:
    """A command, and the same in the form of ``wire.admin.Operate``; without a verb if that has no such form."""

    command: str
    verb: str = ""
    kind: str = ""
    name: str = ""
    to: str = ""
    """The commit of ``main`` to go back to."""

    def body(self) -> answers.Act:
        """Return it as ``wire.admin.ShowCommit`` answers it."""
        return {"verb": self.verb, "kind": self.kind, "name": self.name, "to": self.to}

    @property
    def is_act(self) -> bool:
        """Return whether ``wire.admin.Operate`` carries it out."""
        return self.verb in ACTS and self.kind in ACTS[self.verb].kinds


def of_manifests(repo: ClusterRepo, entry: Entry) -> Iterator[Way]:
    """Yield the commands that undo a commit of ``main``: for a mirror, and for many objects, those to type in a clone."""
    revision = entry.commit.revision
    url = repo.mirrored()
    known = [each for each in entry.touched if each.key[0] in PLURALS]
    if url or entry.left_out or len(known) > OBJECTS_MAX:
        yield Way(f"git clone {shlex.quote(url or str(repo.path))} clone")
        yield Way(f"git -C clone revert {revision[:10]}")
        yield Way("git -C clone push")
        return
    before = parent(repo, revision)
    for each in known:
        kind, own = each.key
        name = shlex.quote(f"{kind.lower()}/{own}")
        if each.action == ADDED:
            yield Way(f"reconciler delete {name}")
        elif before is not None:
            to = before[:10]
            yield Way(f"reconciler rollout undo {name} --to-revision={to}", "undo", kind, own, to)


def of_operations(desired: Desired, entry: Entry) -> Iterator[Way]:
    """Yield the commands that undo a commit of the operations, as far as it still has an effect."""
    present = {effect.operation.metadata.name for effect in desired.effects}
    for each in entry.touched:
        name = each.key[1]
        verb, _, target = name.partition(".")
        kind, _, own = target.partition(".")
        if (name in present) is (each.action != REMOVED) and own:
            yield from _undone(verb, _KINDS.get(kind, ""), own, name, each.action == REMOVED)


_KINDS = {kind.lower(): kind for kind in (*PLURALS, "Cluster", "Revision")}


def _undone(verb: str, kind: str, own: str, name: str, removed: bool) -> Iterator[Way]:
    spec = VERBS.get(verb)
    if spec is None or not spec.ended_by:
        return
    if spec.ended_by == UNDO:
        if not removed:
            yield Way(f"reconciler undo {shlex.quote(name)}", UNDO, "Operation", name)
        return
    again = verb if removed else spec.ended_by
    way = Way(
        f"reconciler {again} {words_for(spec.kinds, kind, shlex.quote(own))}".rstrip(), again, kind, own
    )
    if way.is_act:
        yield way
    else:
        yield Way(way.command) if removed else Way(way.command, UNDO, "Operation", name)
