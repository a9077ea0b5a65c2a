"""Validates a push if no controller answers: ``python -m reconciler.source.hook pre-receive``.

Git passes the moved branches on standard input as ``old new ref`` lines, and shows the output to the pusher.
Branches other than ``main`` and ``operations`` are accepted unchecked, because they have no effect. Pushed objects are in
quarantine until this hook accepts them; git's variables for that must reach every git command here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from reconciler.errors import InvalidManifests, ReconcilerError

from .git.pushes import Push
from .git.repository import BRANCH, OPERATIONS, REF, ClusterRepo
from .operations import load_operations
from .pushed import read_push
from .yaml.documents import load

PROBLEMS_SHOWN_MAX = 100


OTHER_THINGS = (
    "reconciler: every YAML file is a manifest, except in folders whose names begin with a dot;",
    "reconciler: to read one folder of another repository: reconciler source set URL --path DIR",
)
"""Advice for a file in ``main`` that is no manifest."""


def main() -> int:
    """Return the exit status: 0 accepts the push, 1 rejects it."""
    if sys.argv[1:] != ["pre-receive"]:
        sys.stderr.write("usage: python -m reconciler.source.hook pre-receive\n")
        return 2
    objection = pre_receive(sys.stdin, Path.cwd(), os.environ)
    if objection:
        sys.stderr.write(objection)
    return 1 if objection else 0


def pre_receive(lines: Iterable[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Return why the push is rejected, in lines for the pusher; empty if accepted. ``folder`` is the repository."""
    quarantine = {name: value for name, value in environment.items() if name in _OBJECT_VARIABLES}
    repo = ClusterRepo(folder, quarantine)
    for line in lines:
        old, new, ref = line.rstrip("\n").split(" ", 2)
        push = Push(old, new, ref)
        if ref in (REF, OPERATIONS):
            try:
                read_push(repo, push)
            except ReconcilerError as error:
                return "".join(f"{line}\n" for line in objection_lines(error, push.branch))
    return ""


def objection_lines(error: ReconcilerError, branch: str) -> list[str]:
    """Return the reason, for the pusher, that a branch does not move."""
    text, others = str(error), False
    if isinstance(error, InvalidManifests):
        text = _listed(error)
        others = branch == BRANCH and any(problem.path == "apiVersion" for problem in error.problems)
    return [
        *f"reconciler: {text}".splitlines(),
        *(OTHER_THINGS if others else ()),
        f"reconciler: {branch} stays as it was",
    ]


_OBJECT_VARIABLES = ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")


def objection_to(repo: ClusterRepo, old: str, new: str, ref: str = REF) -> str:
    """Return why a command's commit on top of ``old`` must not be taken; empty if it may. Raises ``ReconcilerError``.
    Names of missing objects are checked for pushes alone, which are complete."""
    try:
        (load_operations if ref == OPERATIONS else load)(repo.read(new, ref))
    except InvalidManifests as error:
        return _listed(error)
    return ""


def _listed(error: InvalidManifests) -> str:
    shown = [f"  {problem}" for problem in error.problems[:PROBLEMS_SHOWN_MAX]]
    hidden = len(error.problems) - len(shown)
    if hidden:
        shown.append(f"  and {hidden} more")
    count = len(error.problems)
    return "\n".join([f"{count} problem{'' if count == 1 else 's'} in the manifests:", *shown])


if __name__ == "__main__":
    sys.exit(main())
