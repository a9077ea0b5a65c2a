"""Answers the hooks of the cluster repository: the effects of a push, and its progress."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from reconciler.admission.jobs import new_jobs, runnable
from reconciler.admission.judge import Incoming
from reconciler.admission.removals import ALL
from reconciler.admission.windows import refused_operations
from reconciler.controller.loop import Loop
from reconciler.controller.parts import Parts
from reconciler.errors import ReconcilerError, Refused
from reconciler.planning.placement.references import dangling
from reconciler.planning.rollout.costs import foresee
from reconciler.resources.registry import RUN
from reconciler.resources.verbs import JOB, NODE
from reconciler.source.git.pushes import Push
from reconciler.source.git.repository import OPERATIONS
from reconciler.source.hook import objection_lines
from reconciler.source.pushed import Pushed
from reconciler.state import Desired
from reconciler.state.desired import JobToRun, abbreviated
from reconciler.state.identity import ObjectKey
from reconciler.state.operations import Operations
from reconciler.wire import answers
from reconciler.wire.admin import FollowPush, JudgeOperations, JudgePush

from . import bodies
from .forecast import (
    Change,
    OperationsChange,
    difference_lines,
    forecast,
    held_lines,
    job_lines,
    removal_lines,
    too_large_lines,
    wrapped,
)
from .preview import beyond_all

REMEMBERED_MAX = 32
"""Most pushes whose objects are remembered, for clients that follow them."""
SHOWN = 5
SUSPEND = "to keep it as it is: reconciler suspend job/"


@dataclass(frozen=True, slots=True)
class _Judged:
    """A push that was accepted."""

    before: str
    """The revision that was in force."""
    keys: tuple[ObjectKey, ...]


def _said(option: str | None, before: str) -> tuple[str, ...]:
    """Return the word of a push option: none without it, all objects for an empty one."""
    return () if option is None else (f"{before}{option or ALL}",)


def _options(said: Collection[str]) -> str:
    names = {"allow-job" if word.startswith(RUN) else "allow-removal" for word in said}
    return " ".join(f"-o {name}" for name in sorted(names))


@dataclass(slots=True)
class Pushes:
    """Judges pushes, and remembers them for clients that follow their progress."""

    parts: Parts
    loop: Loop
    _judged: dict[str, _Judged] = field(default_factory=dict)

    async def judge(self, message: JudgePush) -> answers.JudgedPush:
        """Answer ``wire.admin.JudgePush``. Raises ``Refused`` if this controller does not read that repository."""
        push = Push(message.old, message.new, message.ref)
        pushed = await self._read(message.repository, message.quarantine, push)
        said = [*_said(message.allow, ""), *_said(message.allow_job, RUN)]
        return await self.foreseen(pushed, said) if isinstance(pushed, Pushed) else pushed

    async def judge_operations(self, message: JudgeOperations) -> answers.JudgedPush:
        """Answer ``wire.admin.JudgeOperations``. Raises like ``judge``."""
        push = Push(message.old, message.new, OPERATIONS)
        pushed = await self._read(message.repository, message.quarantine, push)
        if not isinstance(pushed, Pushed):
            return pushed
        parts = self.parts
        before = parts.desired_state.operations
        change = OperationsChange.between(before.items, pushed.operations)
        objects, now = parts.desired_state.desired.objects(), parts.clock()
        if refused := refused_operations(objects, change.operations, before.overridden(now), now):
            lines = [*(f"reconciler: {text}" for text in refused), "reconciler: operations stays as it was"]
            return {"accept": False, "lines": wrapped(lines)}
        if made_up := self._made_up(change):
            lines = [
                f"reconciler: {each} is not in force like this: {SUSPEND}{each.name}" for each in made_up
            ]
            return {"accept": False, "lines": wrapped((*lines, "reconciler: operations stays as it was"))}
        incoming = Operations(push.new, pushed.operations)
        verdict = await parts.desired_state.judge_again(incoming)
        plan = await self.loop.preview(parts.desired_state.after(verdict, incoming))
        return {
            "accept": True,
            "lines": forecast(push.new, change, (), (), self.loop.plan, plan, parts.clock()),
        }

    def _made_up(self, change: OperationsChange) -> tuple[JobToRun, ...]:
        """Return the jobs that pushed operations would keep as they never were: the code of a job comes from ``main``."""
        state, objects = self.parts.desired_state, self.parts.desired_state.desired.objects()
        nodes = [each for key, each in objects.items() if key.kind == NODE]
        kept = [each.frozen for each in change.operations if each.spec.target.kind == JOB]
        jobs = [each for each in kept if each is not None]
        return new_jobs(state.runnable | runnable(objects.values()), (*jobs, *nodes), ())

    async def _read(self, repository: str, quarantine: str, push: Push) -> Pushed | answers.JudgedPush:
        """Return the push, or the answer why it is not accepted. Raises ``Refused`` if it is to another repository."""
        try:
            return await self.parts.around.source.judge(repository, quarantine, push)
        except ReconcilerError as error:
            if isinstance(error, Refused) and error.code == "Elsewhere":
                raise
            return {"accept": False, "lines": wrapped(objection_lines(error, push.branch))}

    async def foreseen(self, pushed: Pushed, said: Collection[str] = ()) -> answers.JudgedPush:
        """Return whether a push is accepted, and lines with its effects or the reason against it. ``said``: the words by which
        the pusher allows removals and jobs, in addition to its commits."""
        parts, push, state = self.parts, pushed.push, self.parts.desired_state
        stays = f"reconciler: {push.branch} stays as it was"
        earlier = await state.allowed(push.old) if push.old.strip("0") else ()
        allowed = {*pushed.allowed, *said, *earlier}
        wishes = Desired.of(push.new, (each.manifest for each in pushed.documents)).objects()
        verdict = await state.judge(Incoming(push.new, wishes, allowed=allowed))
        if unsaid := [*removal_lines(verdict.removal.unsaid), *job_lines(verdict.runs)]:
            return {"accept": False, "lines": [*unsaid, stays]}
        if said and not verdict.removal.much:
            parts.store.objects.approve(push.new, parts.clock(), f"git push {_options(said)}")
        whole, in_force = state.with_operations(push.new, wishes, state.operations), state.desired
        change = Change.between(in_force.objects(), whole.objects())
        if verdict.suspended is not None:
            lines = wrapped((f"reconciler: suspended: {verdict.suspended.text}",))
        elif verdict.hold is not None:
            lines = held_lines(verdict.hold)
        else:
            if too_large := beyond_all(parts, whole):
                return {"accept": False, "lines": [*too_large_lines(too_large), stays]}
            incoming = state.after(verdict)
            plan = await self.loop.preview(incoming)
            costs = [
                f"modeldeployment/{cost.deployment}: {cost.text}"
                for cost in foresee(in_force, incoming, parts.store.groups(), plan)
            ]
            lacking = dangling(incoming, change.keys)
            lines = forecast(push.new, change, lacking, costs, self.loop.plan, plan, parts.clock())
            if verdict.held is not None:
                lines += wrapped(f"reconciler: {line}" for line in verdict.held.lines)
        lines += difference_lines(bodies.lasting(parts.last))
        self._remember(push.new, _Judged(in_force.revision, change.keys))
        return {"accept": True, "lines": lines}

    def _remember(self, revision: str, judged: _Judged) -> None:
        self._judged[revision] = judged
        while len(self._judged) > REMEMBERED_MAX:
            del self._judged[next(iter(self._judged))]

    def standing(self, message: FollowPush) -> answers.FollowedPush:
        """Answer ``wire.admin.FollowPush`` as things stand now."""
        done, lines = self._standing(message.revision)
        return {"version": f"{done} {lines}", "done": done, "lines": wrapped(lines)}

    def _standing(self, revision: str) -> tuple[bool, list[str]]:
        desired = self.parts.last.desired
        if desired.hold is not None and desired.hold.revision == revision:
            return True, [f"reconciler: {desired.hold.text}"]
        judged, held = self._judged.get(revision), desired.held_changes
        kept = frozenset[ObjectKey]()
        if held is not None and held.revision == revision:
            kept = frozenset(each.object for each in held.changes)
            if desired.revision != revision:
                return True, [f"reconciler: {line}" for line in held.lines]
        if desired.revision != revision:
            if judged is not None and desired.revision != judged.before:
                return True, [f"reconciler: replaced by {abbreviated(desired.revision)}, which is newer"]
            if desired.rejection is not None:
                return True, [f"reconciler: {desired.rejection.line}"]
            return False, []
        keys = [key for key in (desired.objects() if judged is None else judged.keys) if key not in kept]
        stalled = [found for key in keys if (found := self._condition(key, "Stalled"))]
        if stalled:
            return True, [f"reconciler: ! {text}" for text in stalled[:SHOWN]]
        missing = [found for key in keys if (found := self._missing(key))]
        if not missing:
            waits = [f"reconciler: {line}" for line in held.lines] if kept and held is not None else []
            return True, ["reconciler: ready", *waits]
        more = [f"reconciler: and {len(missing) - SHOWN} more"] if len(missing) > SHOWN else []
        return False, [*(f"reconciler: {text}" for text in missing[:SHOWN]), *more]

    def _condition(self, key: ObjectKey, type: str) -> str:
        """Return the message of a condition that is true for the newest spec; else an empty text."""
        status = self.parts.publisher.statuses.get(key)
        if status is None or status.generation < self.parts.last.desired.generations.get(key, 1):
            return ""
        return next(
            (f"{key}: {each.told}" for each in status.conditions if each.type == type and each.status), ""
        )

    def _missing(self, key: ObjectKey) -> str:
        """Say what keeps an object from being as its newest spec wants it; empty if nothing does."""
        last = self.parts.last
        if key not in last.desired.objects():
            return f"{key}: is being removed" if key in last.memory.leaving else ""
        if busy := self._condition(key, "Reconciling"):
            return busy
        if self._condition(key, "Ready"):
            return ""
        status = self.parts.publisher.statuses.get(key)
        unready = [each.told for each in status.conditions if each.type == "Ready"] if status else []
        return f"{key}: {unready[0] if unready else 'is not known yet'}"
