"""Carries out commands at once for people without a shell: with the same decision, and the same commit."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.controller.loop import Loop
from reconciler.controller.parts import Parts
from reconciler.errors import Refused, not_found
from reconciler.resources import PLURALS
from reconciler.resources.verbs import ACTS
from reconciler.source.editing import Edit, set_fields
from reconciler.source.git import commit_log, going_back
from reconciler.source.git.repository import BRANCH, Author, ClusterRepo, mirror_text
from reconciler.source.hook import objection_to
from reconciler.source.operating import verbs
from reconciler.source.operating.change import (
    Asking,
    Change,
    Files,
    Key,
    Now,
    ask_windows,
    message_of,
    titled,
)
from reconciler.source.operating.writing import allowed, in_force, seen, write, write_manifests
from reconciler.source.yaml.documents import load
from reconciler.wire import answers
from reconciler.wire.admin import Operate

from . import bodies, preview

STEPS_SHOWN = 20
OPERATIONS_BRANCH = "operations"


@dataclass(slots=True)
class Operating:
    """Carries out ``wire.admin.Operate``. Of two requests at the same time, the later is decided again on top of the earlier."""

    parts: Parts
    loop: Loop

    async def operate(self, message: Operate) -> answers.Operated:
        """Return the answer. Raises ``Refused``, ``Invalid`` and ``Conflict``."""
        source = self.parts.around.source
        repo = source.repository()
        if repo is None:
            raise Refused(
                "WatchedFolder",
                f"the controller reads {source.describe()}: edit the files there, changes are noticed",
            )
        if message.verb not in ACTS or message.kind not in ACTS[message.verb].kinds:
            raise Refused("Unknown", f"{message.verb} of a {message.kind} is not done here; use the command")
        request = _Request(replace(repo, check=objection_to), message, self.parts.clock(), self._status())
        head, now = await asyncio.to_thread(request.seen)
        change = await asyncio.to_thread(request.decide, now)
        wish = await asyncio.to_thread(request.wish, now.files)
        await asyncio.to_thread(ask_windows, now, change)
        text, ends = await self._foreseen(message, now, change, wish.edit)
        if ends and not (message.force or message.dry):
            raise verbs.would_stop([message.name], ends)
        written = {
            BRANCH: (wish.text, commit_log.shown(now.files, wish.edit.changes)),
            OPERATIONS_BRANCH: (
                message_of(now, change),
                commit_log.shown(now.operation_files, now.changes(change)),
            ),
        }
        branches = [BRANCH] * bool(wish.edit.changes) + [OPERATIONS_BRANCH] * bool(change.operations)
        body: answers.Operated = {
            "revision": None,
            "author": request.by,
            "branches": branches,
            "message": "\n".join(written[branch][0] for branch in branches),
            "files": [bodies.file_body(each) for branch in branches for each in written[branch][1]],
            "changes": bool(branches),
            "text": [*request.notes(now, change), *wish.notes, *text],
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

    async def _foreseen(
        self, message: Operate, now: Now, change: Change, edit: Edit
    ) -> tuple[list[str], list[str]]:
        """Return the steps that would be taken, and the groups that would end, a line each."""
        if not change.operations and not edit.changes:
            return [], []
        if message.verb == "approve":
            hold = self.parts.desired_state.desired.hold
            lines = [f"would remove {key}" for key in hold.removes] if hold else []
            lines += [f"would run {each}" for each in hold.runs] if hold else []
            return lines[:STEPS_SHOWN] + ["and more"] * (len(lines) > STEPS_SHOWN), []
        said = allowed(edit.results)
        wished = preview.wished_by(edit.applied_to(now.files), said) if edit.changes else None
        operations = preview.laid_by(now.after(change))
        body = await preview.foresee(self.parts, self.loop, wished, operations)
        if message.verb == "drain":
            return verbs.moves(body["replicas"], (message.name,))
        steps = [f"would {step['text']}" for step in body["plan"]["steps"]]
        return steps[:STEPS_SHOWN], []


@dataclass(frozen=True, slots=True)
class _Wish:
    """The files to write to ``main``; none if the edit has no changes. ``text``: the commit's message."""

    edit: Edit
    text: str = ""
    notes: tuple[str, ...] = ()
    """Facts that neither the message nor the diff shows, a line each."""


NO_WISH = _Wish(Edit({}, ()))


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
    def by(self) -> str:
        return f"{self.author.name} <{self.author.email}>"

    @property
    def reason(self) -> str:
        return self.message.reason.strip()

    @property
    def asking(self) -> Asking:
        if self._scales_for_good():
            return Asking(self.by, verbs.MANIFESTS_SAY)
        seconds = self.message.seconds
        until = None if seconds is None else int(self.at) + max(seconds, 1.0)
        return Asking(self.by, self.reason, until)

    def seen(self) -> tuple[str | None, Now]:
        return seen(self.repo, self.asking, self.at)

    def decide(self, now: Now) -> Change:
        """Return the operations to write. Raises ``Refused``, also if the only writes would be to a mirror."""
        verb = self.message.verb
        if verb == "approve":
            revision, again = verbs.held(self.status, now.operations, self.message.name)
            change = verbs.approve(now, revision, self.status["revision"])
            return Change("", change.results) if again else change
        if verb == "suspend":
            return verbs.suspend(now, {self.key: self._in_force()})
        if verb == "resume":
            return verbs.resume(now, [self.key])
        if verb == "undo":
            ends = self.message.kind == "Operation"
            return verbs.undo(now, [self.message.name]) if ends else Change("", ())
        self._known({document.key for document in load(now.files)})
        if self._scales_for_good():
            return verbs.end(now, verb, [self.key])
        if verb == "scale":
            return verbs.scale(now, [self.key], self._replicas())
        if verb == "cancel":
            return verbs.cancel(now, {self.key: self.message.run})
        if verb == "uncordon":
            change = verbs.uncordon(now, [self.key])
            kept_off = verbs.kept_off(now.files, [self.key])
            if not change.operations and kept_off and (url := self.repo.mirrored()):
                raise verbs.kept_off_by_mirror([self.key], url)
            return change
        return verbs.begin(now, verb, [self.key], at=self.at if verb == "restart" else None)

    def wish(self, files: Files) -> _Wish:
        """Return the files to write to ``main``. Raises ``Refused`` and ``Invalid``."""
        verb = self.message.verb
        if verb == "uncordon" and not self.repo.mirrored():
            fields = verbs.kept_off(files, [self.key])
            edit = set_fields(files, fields) if fields else Edit({}, ())
            return _Wish(edit, titled("Uncordon", edit.results))
        if verb == "scale" and self._scales_for_good():
            edit = verbs.scale_for_good(files, [self.key], self._replicas())
            return _Wish(edit, self.reason or f"{titled('Scale', edit.results)} to {self._replicas()}")
        if verb == "undo" and self.message.kind != "Operation":
            return self._gone_back(files)
        return NO_WISH

    def _gone_back(self, files: Files) -> _Wish:
        if url := self.repo.mirrored():
            raise Refused("Mirrored", mirror_text(url))
        to = self.message.to_revision
        if not to:
            undone = going_back.undo(self.repo, files, self.key)
        else:
            undone = going_back.go_back(self.repo, files, self.key, self.repo.resolve(to))
        commit = undone.undoes
        notes = (
            [f'would undo {commit.revision[:10]} "{commit.subject}", by {commit.author}'] if commit else []
        )
        return _Wish(
            undone.edit, self.reason or undone.message, (*notes, *([undone.note] if undone.note else []))
        )

    def _scales_for_good(self) -> bool:
        """Return whether a number of replicas is written to ``main``, instead of laid over it."""
        return self.message.verb == "scale" and self.message.seconds is None and not self.repo.mirrored()

    def _replicas(self) -> int:
        return verbs.replicas_of(self.message.replicas)

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
            raise not_found(PLURALS[kind], name, [other for one, other in there if one == kind])

    def notes(self, now: Now, change: Change) -> list[str]:
        """Return the facts that the operations of a change do not show, a line each."""
        url = self.repo.mirrored()
        if self.message.verb == "scale" and url:
            return [mirror_text(url)]
        if self.message.verb != "uncordon" or not verbs.kept_off(now.files, [self.key]):
            return []
        said = f"its manifest keeps ranks off it{' too' if change.operations else ''}"
        return [f"{said}, and {mirror_text(url)}" if url else f"{said}: a commit to main takes that back"]

    def write(self) -> str | None:
        """Commit, and return the revision: of ``main``, or of the operations if only they have changed. Raises like ``decide``
        and ``wish``."""
        texts: list[str] = []

        def decide(files: Files) -> Edit:
            wish = self.wish(files)
            texts[:] = [wish.text]
            return wish.edit

        in_main, edit = write_manifests(self.repo, self.author, decide, lambda _: texts[0], {})
        written = write(self.repo, self.author, self.asking, self.decide, lambda: self.at)
        return in_main if edit.changes else written.revision
