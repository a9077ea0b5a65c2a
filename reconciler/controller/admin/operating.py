"""Does at once what a command does, for who has no shell: the same decision, and the same commit."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.controller.loop import Loop
from reconciler.controller.parts import Parts
from reconciler.errors import Refused, listing
from reconciler.source.editing import set_fields
from reconciler.source.git import commit_log
from reconciler.source.git.repository import Author, ClusterRepo, mirror_text
from reconciler.source.hook import objection_to
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Asking, Change, Key, Now, ask_windows, message_of
from reconciler.source.operating.writing import in_force, seen, subject, write, write_manifests
from reconciler.source.yaml.documents import load
from reconciler.wire.admin import Operate, Preview

from . import bodies, preview
from .history import file_body

STEPS_SHOWN = 20
KINDS: Mapping[str, tuple[str, ...]] = {
    "approve": ("Revision",),
    "cordon": ("Node",),
    "uncordon": ("Node",),
    "drain": ("Node",),
    "suspend": ("ModelDeployment", "Model", "Node", "Cluster"),
    "resume": ("ModelDeployment", "Model", "Node", "Cluster"),
    "restart": ("ModelDeployment",),
}
"""What each verb may be said of here."""


@dataclass(slots=True)
class Operating:
    """Carries out ``wire.admin.Operate``. Of two at the same time, the later one is decided again on top of the earlier."""

    parts: Parts
    loop: Loop

    async def operate(self, message: Operate) -> dict[str, Any]:
        """Return the answer. Raises ``Refused`` and ``Conflict``."""
        source = self.parts.around.source
        repo = source.repository()
        if repo is None:
            raise Refused(
                "WatchedFolder",
                f"the controller reads {source.describe()}: edit the files there, changes are noticed",
            )
        if message.kind not in KINDS.get(message.verb, ()):
            raise Refused("Unknown", f"{message.verb} of a {message.kind} is not done here; use the command")
        request = _Request(replace(repo, check=objection_to), message, self.parts.clock(), self._status())
        head, now = await asyncio.to_thread(request.seen)
        change = await asyncio.to_thread(request.decide, now)
        await asyncio.to_thread(ask_windows, now, change)
        text, ends = await self._foreseen(message, now, change)
        if ends and not (message.force or message.dry):
            raise verbs.would_stop([message.name], ends)
        body = {
            "revision": None,
            "author": request.asking.by,
            "message": message_of(now, change) if change.operations else "",
            "files": [
                file_body(each)
                for each in commit_log.shown(
                    now.operation_files, now.changes(change) if change.operations else {}
                )
            ],
            "changes": bool(change.operations) or bool(request.taken_back(now)),
            "text": [*request.notes(now, change), *text],
            "ends": ends,
        }
        if message.dry:
            return body
        self.parts.store.verify()  # a controller that was replaced writes nothing
        revision = await asyncio.to_thread(request.write)
        self.loop.look_at_source()
        return {**body, "revision": revision or head}

    def _status(self) -> dict[str, Any]:
        desired = self.parts.desired_state.desired
        return {"revision": desired.revision, **bodies.kept_out(desired)}

    async def _foreseen(self, message: Operate, now: Now, change: Change) -> tuple[list[str], list[str]]:
        """Return what would happen, and which groups would end, a line each."""
        if not change.operations:
            return [], []
        if message.verb == "approve":
            hold = self.parts.desired_state.desired.hold
            removed = [f"would remove {key}" for key in hold.removes] if hold else []
            return removed[:STEPS_SHOWN] + ["and more"] * (len(removed) > STEPS_SHOWN), []
        operations = {name: text.decode() for name, text in now.after(change).items()}
        body = await preview.preview(self.parts, self.loop, Preview({}, operations))
        if message.verb == "drain":
            return verbs.moves(body["replicas"], (message.name,))
        steps = [f"would {step['text']}" for step in body["plan"]["steps"]]
        return steps[:STEPS_SHOWN], []


@dataclass(frozen=True, slots=True)
class _Request:
    """One request. Its methods block on git."""

    repo: ClusterRepo
    message: Operate
    at: float
    status: Mapping[str, Any]

    @property
    def key(self) -> Key:
        return self.message.kind, self.message.name

    @property
    def author(self) -> Author:
        return Author(self.message.author, self.message.email)

    @property
    def asking(self) -> Asking:
        seconds = self.message.seconds
        until = None if seconds is None else int(self.at) + max(seconds, 1.0)
        return Asking(f"{self.author.name} <{self.author.email}>", self.message.reason.strip(), until)

    def seen(self) -> tuple[str | None, Now]:
        return seen(self.repo, self.asking, self.at)

    def decide(self, now: Now) -> Change:
        """Return what to write. Raises ``Refused``, also where there is nothing to write but to a mirror."""
        verb = self.message.verb
        if verb == "approve":
            revision, again = verbs.held(self.status, now.operations, self.message.name)
            change = verbs.approve(now, revision, self.status["revision"])
            return Change("", change.results) if again else change
        if verb == "suspend":
            return verbs.suspend(now, {self.key: self._in_force()})
        if verb == "resume":
            return verbs.resume(now, [self.key])
        self._known({document.key for document in load(now.files)})
        if verb == "restart":
            return verbs.restart(now, [self.key], self.at)
        if verb == "uncordon":
            change = verbs.uncordon(now, [self.key])
            if not change.operations and self.taken_back(now) and (url := self.repo.mirrored()):
                raise verbs.kept_off_by_mirror([self.key], url)
            return change
        return verbs.keep_off(now, verb, [self.key])

    def _in_force(self) -> dict[str, Any]:
        """Return the manifest in force of the object."""
        if self.key == verbs.CLUSTER:
            return {}
        there = in_force(self.repo)
        self._known(there)
        return verbs.frozen(there, [self.key])[self.key]

    def _known(self, there: Collection[Key]) -> None:
        if self.key not in there:
            kind, name = self.key
            raise Refused("NotFound", f'there is no {kind} "{name}"; {listing("all")}')

    def taken_back(self, now: Now) -> dict[Key, verbs.Values]:
        """Return the fields of manifests that say the same as what is ended."""
        return verbs.kept_off(now.files, [self.key]) if self.message.verb == "uncordon" else {}

    def notes(self, now: Now, change: Change) -> list[str]:
        """Return what the operations of a change do not show, a line each."""
        if not self.taken_back(now):
            return []
        said = f"its manifest keeps ranks off it{' too' if change.operations else ''}"
        url = self.repo.mirrored()
        return [f"{said}, and {mirror_text(url)}" if url else f"{said}: a commit to main takes that back"]

    def write(self) -> str | None:
        """Commit, and return the revision: of the operations, or of ``main`` where only a manifest has changed. Raises like
        ``decide``."""
        wished: dict[Key, verbs.Values] = {}

        def decide(now: Now) -> Change:
            wished.clear()
            wished.update(self.taken_back(now))
            return self.decide(now)

        written = write(self.repo, self.author, self.asking, decide, lambda: self.at)
        if not wished or self.repo.mirrored():
            return written.revision  # of a mirror the page has said what is left to do: ``notes``
        in_main, _ = write_manifests(
            self.repo, self.author, lambda files: set_fields(files, wished), subject("Uncordon"), {}
        )
        return written.revision if written.change.operations else in_main
