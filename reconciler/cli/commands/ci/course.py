"""The course of a rehearsal: serve the base, apply the change, break something, and see whether it serves again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic.alias_generators import to_camel

from reconciler.cli.output.kind_columns import state
from reconciler.errors import Invalid, Refused, Unreachable
from reconciler.wire.admin import Approve, Get, ShowPlan, ShowStatus
from reconciler.wire.answers import ControllerStatus
from reconciler.wire.objects import Fabric, ModelDeployment

from .home import Home
from .stand_ins import StandIns
from .watching import Watcher

STEP_SECONDS_MAX = 180.0
SEEN_SECONDS_MAX = 60.0
STILL_SECONDS = 2.0
"""A cluster that has had nothing to do for this time does nothing more."""
POLL_SECONDS = 0.2
READY = "Ready"
APPROVER = "rehearsal"

Say = Callable[[str], None]


@dataclass
class Step:
    """A step of a rehearsal with its observed effects. Seconds count from the step."""

    name: str
    ok: bool = False
    seen_after: float | None = None
    """Seconds until the controller named the fault, or took the change; None if it did not."""
    served_after: float | None = None
    """Seconds until everything was served that should be; None if it was not."""
    unserved: dict[str, float] = field(default_factory=dict)
    """Seconds without a ready replica, by deployments that were served before."""
    requests: int = 0
    failed: int = 0
    longest: float = 0.0
    """Seconds of the slowest answer."""
    said: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        return {to_camel(name): value for name, value in asdict(self).items()}


@dataclass
class Fault:
    """A fault to cause: commands of `reconciler sandbox`, and the commands that end it."""

    name: str
    commands: list[str]
    back: list[str] = field(default_factory=list)
    needed: bool = True
    """True if the controller must name it; else it may stay unnoticed."""


@dataclass
class Course:
    """The course. Call ``run`` once; ``steps`` then has all steps that were reached."""

    home: Home
    base: StandIns
    change: StandIns
    deadline: float
    """Of ``time.monotonic``."""
    say: Say
    watcher: Watcher = field(init=False)
    steps: list[Step] = field(default_factory=list)
    pushed: str = ""
    """The output of the push."""
    excused: set[str] = field(default_factory=set)
    """Deployments that were not served before, and that the change does not touch."""

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.home.ask)

    def run(self, choose: Callable[[Sequence[ModelDeployment], Sequence[Fabric]], list[Fault]]) -> bool:
        """Return whether every step ended as it should. ``choose`` picks the faults, from the deployments with their
        groups, and from the Fabrics."""
        self.watcher.start()
        try:
            if self._serve(self.base) and self._apply():
                deployments = self.home.ask(Get("ModelDeployment"))["items"]
                for fault in choose(deployments, self.home.ask(Get("Fabric"))["items"]):
                    self._break(fault)
        finally:
            self.watcher.end()
        return all(step.ok for step in self.steps)

    def _serve(self, base: StandIns) -> bool:
        """Start, and wait until all that can serve do. A deployment that the base cannot serve does not fail the change."""
        step, at = self._begin("start the base")
        step.seen_after = self._until("the controller", at, lambda: bool(self._status()["revision"]))
        # Nothing can be rehearsed before, and new groups over RDMA read a long prompt on this machine's CPU.
        served = self._until("the base to serve", at, lambda: self._served(base) or self._still(), math.inf)
        if served is not None:
            ready = self._ready_now()
            unserved = {name for name, replicas in base.served.items() if ready.get(name) != replicas}
            self.excused = {name for name in unserved if self._unchanged(name)}
            step.said += [
                f"modeldeployment/{name} is not served before the change either" for name in unserved
            ]
            step.served_after = None if unserved else served
            if endpoint := self._status()["localEndpoint"]:
                self.watcher.load(endpoint, base.asked | self.change.asked)
            answered = (base.asked & ready.keys()) - unserved
            step.ok = self._until("an answer", at, lambda: self.watcher.answered(answered, at)) is not None
        self._end(step, at, {})
        return step.ok

    def _unchanged(self, name: str) -> bool:
        one, other = (each.of_kind("ModelDeployment").get(name) for each in (self.base, self.change))
        return one == other

    def _apply(self) -> bool:
        step, at = self._begin("apply the change")
        before = self._ready_now()
        try:
            revision, self.pushed = self.home.push(self.change.text)
        except Invalid as error:
            step.said.append(f"the push was refused: {error}")
            self._end(step, at, before)
            return False
        step.seen_after = self._until(
            "the change to come into force", at, lambda: self._taken(step, revision)
        )
        served = self._until(
            "the change to be served",
            at,
            lambda: self._healed(at) or (not self._served(self.change) and self._still()),
        )
        step.ok = step.seen_after is not None and served is not None and self._served(self.change)
        step.served_after = served if step.ok else None
        self._end(step, at, before)
        return step.ok

    def _taken(self, step: Step, revision: str) -> bool:
        """Return whether a revision is in force; approve it if it is held."""
        status = self._status()
        held = status["held"]
        if held and held["revision"] == revision:
            step.said.append(f"{held['text']} (approved here)")
            self.home.ask(Approve(revision, APPROVER))
        return status["revision"] == revision

    def _break(self, fault: Fault) -> None:
        step, at = self._begin(fault.name)
        before, epochs = self._ready_now(), self._epochs()
        self.watcher.news()
        for command in fault.commands:
            self.home.run("sandbox", *command.split())
        step.seen_after = self._until(
            f"{fault.name}: to be noticed", at, lambda: self._noticed(step) or self._epochs() != epochs,
            SEEN_SECONDS_MAX,
        )  # fmt: skip
        for command in fault.back:
            self.home.run("sandbox", *command.split())
        if fault.back:
            self._rest(POLL_SECONDS)
        served = self._until(f"{fault.name}: to be healed", at, lambda: self._healed(at))
        noticed = step.seen_after is not None or not fault.needed
        step.ok, step.served_after = noticed and served is not None, served
        self._end(step, at, before)

    # --- what holds now ---

    def _status(self) -> ControllerStatus:
        return self.home.ask(ShowStatus())

    def _ready_now(self) -> dict[str, int]:
        """Return the ready replicas of each deployment; 0 if its newest spec is not served."""
        items = self.home.ask(Get("ModelDeployment"))["items"]
        return {
            each["metadata"]["name"]: each["status"].get("readyReplicas", 0) if state(each) == READY else 0
            for each in items
        }

    def _healed(self, at: float) -> bool:
        """Return whether the change is served, and clients have noticed."""
        asked = self.change.asked - self.excused
        return self._served(self.change) and self.watcher.answered(asked, at)

    def _epochs(self) -> dict[str, int]:
        return dict(self.watcher.samples[-1].epochs) if self.watcher.samples else {}

    def _served(self, wanted: StandIns) -> bool:
        """Return whether every replica is ready, and nothing is left to do."""
        ready = self._ready_now()
        expected = {**dict.fromkeys(ready, 0), **wanted.served}
        served = all(ready.get(name) == count for name, count in expected.items() if name not in self.excused)
        return served and self._status()["settled"]

    def _still(self) -> bool:
        """Return whether there has been nothing to do for a while: nothing more will then be served."""
        end = time.monotonic() + STILL_SECONDS
        while self._status()["settled"]:
            if time.monotonic() >= end:
                return True
            self._rest(POLL_SECONDS)
        return False

    def _noticed(self, step: Step) -> bool:
        warnings = [event for event in self.watcher.news() if event["type"] == "Warning"]
        step.said += [f"{event['object']}: {event['message']}" for event in warnings]
        return bool(warnings)

    # --- the frame of every step ---

    def _begin(self, name: str) -> tuple[Step, float]:
        self.say(name)
        self.steps.append(Step(name))
        return self.steps[-1], time.monotonic()

    def _end(self, step: Step, at: float, before: dict[str, int]) -> None:
        with suppress(Refused, Unreachable):
            self._noticed(step)
            plan = self.home.ask(ShowPlan())
            if reasons := [] if step.ok else [*plan["refused"], *plan["waiting"]]:
                step.said = [
                    *dict.fromkeys(f"{each['object']}: {each['text']}" for each in reasons),
                    *step.said,
                ]
        wished = self.change.served
        step.unserved = {
            name: round(self.watcher.unserved(name, at), 1)
            for name, ready in sorted(before.items())
            if ready and name in wished
        }
        now = time.monotonic()
        during = [each for each in self.watcher.requests if (each.ended_at or now) >= at]
        step.requests, step.failed = len(during), sum(bool(each.error) for each in during)
        seconds = ((each.ended_at or now) - each.begun_at for each in during)
        step.longest = round(max(seconds, default=0.0), 1)
        step.said = list(dict.fromkeys(step.said + [each.error for each in during if each.error]))

    def _until(
        self, what: str, at: float, true: Callable[[], bool], seconds: float = STEP_SECONDS_MAX
    ) -> float | None:
        """Wait until ``true`` returns True; return the seconds that this took, None if it did not in time."""
        end = min(self.deadline, time.monotonic() + seconds)
        while time.monotonic() < end:
            self.home.check()
            with suppress(Refused, Unreachable):
                if true():
                    return round(time.monotonic() - at, 1)
            self.say(f"waiting for {what}")
            self._rest(POLL_SECONDS)
        return None

    def _rest(self, seconds: float) -> None:
        time.sleep(max(0.0, min(seconds, self.deadline - time.monotonic())))
