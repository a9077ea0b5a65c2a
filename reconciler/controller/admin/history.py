"""Lists the commits, with their changes and their present state."""

from __future__ import annotations

import asyncio
import heapq
from itertools import islice
from operator import itemgetter

from reconciler.controller.parts import Parts
from reconciler.errors import Invalid, Refused, Unreachable
from reconciler.source.git import commit_log
from reconciler.source.git.commit_log import Entry
from reconciler.source.git.history import commits
from reconciler.source.git.repository import BRANCH, EMPTY, OPERATIONS, REF, ClusterRepo
from reconciler.state import Desired
from reconciler.wire import answers

from . import bodies, undoing
from .bodies import iso

COMMITS_MAX = 500
BRANCHES = {REF: BRANCH, OPERATIONS: "operations"}


class History:
    """The commits of the cluster repository. Each is looked at once."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: dict[str, Entry] = {}

    async def commits(self, limit: int) -> answers.CommitList:
        """Return the newest commits of both branches."""
        repo = self._parts.around.source.repository()
        if repo is None:
            return {"items": [], "problem": self._no_commits()}
        try:
            return await asyncio.to_thread(self._commits, repo, self._desired, min(limit, COMMITS_MAX))
        except (Invalid, Unreachable) as error:
            return {"items": [], "problem": str(error)}

    async def commit(self, revision: str) -> answers.ShownCommit:
        """Return a commit with its diff. Raises ``Refused``."""
        repo = self._parts.around.source.repository()
        if repo is None:
            raise Refused("NoHistory", self._no_commits())
        try:
            return await asyncio.to_thread(self._commit, repo, self._desired, revision)
        except Invalid as error:
            raise Refused("NotFound", str(error)) from error

    @property
    def _desired(self) -> Desired:
        return self._parts.desired_state.desired

    def _no_commits(self) -> str:
        return f"the controller reads {self._parts.around.source.describe()}, which has no commits"

    def _commits(self, repo: ClusterRepo, desired: Desired, limit: int) -> answers.CommitList:
        found = {ref: commit_log.entries(repo, ref, limit, self._known) for ref in BRANCHES}
        self._known = {entry.commit.revision: entry for each in found.values() for entry in each}
        wishes, operations = (_bodies(repo, desired, ref, found[ref]) for ref in BRANCHES)
        # Those of each branch keep git's order, whatever their dates say. Of two in the same second, the operation is the newer
        # one: it is about the state before.
        merged = heapq.merge(operations, wishes, key=itemgetter("time"), reverse=True)
        return {"items": list(islice(merged, limit)), "problem": None}

    def _commit(self, repo: ClusterRepo, desired: Desired, revision: str) -> answers.ShownCommit:
        ref, entry = commit_log.found(repo, revision)
        (body,) = _bodies(repo, desired, ref, (entry,))
        ways = tuple(
            undoing.of_manifests(repo, entry) if ref == REF else undoing.of_operations(desired, entry)
        )
        return {
            **body,
            "message": commit_log.message(repo, entry.commit.revision),
            "files": [bodies.file_body(each) for each in commit_log.diffs(repo, entry.commit)],
            "undo": [way.command for way in ways],
            "acts": [way.body() for way in ways if way.is_act],
        }


def _bodies(
    repo: ClusterRepo, desired: Desired, ref: str, entries: tuple[Entry, ...]
) -> list[answers.Commit]:
    in_force = desired.revision if ref == REF else desired.operations
    in_force = "" if in_force == EMPTY else in_force
    newer = commit_log.newer_than(repo, in_force, ref) if entries else frozenset()
    newest = next(iter(commits(repo, 1, ref, in_force)), None) if in_force else None
    return [
        {
            "revision": entry.commit.revision,
            "branch": BRANCHES[ref],
            "author": entry.commit.author,
            "email": entry.commit.email,
            "time": iso(entry.commit.at),
            "subject": entry.commit.subject,
            "state": (
                _kept_out(desired, ref)
                if entry.commit.revision in newer
                else "InForce"
                if newest is not None and newest.revision == entry.commit.revision
                else "Earlier"
            ),
            "objects": [
                {"object": f"{each.key[0].lower()}/{each.key[1]}", "action": each.action}
                for each in entry.touched
            ],
            "objectsLeftOut": entry.left_out,
        }
        for entry in entries
    ]


def _kept_out(desired: Desired, ref: str) -> str:
    """Return why a newer commit of a branch is not in force."""
    if ref == OPERATIONS:
        return "Rejected" if desired.operations_rejection else "Unread"
    if desired.rejection:
        return "Rejected"
    if desired.suspended:
        return "Suspended"
    return "Held" if desired.hold or desired.held_changes else "Unread"
