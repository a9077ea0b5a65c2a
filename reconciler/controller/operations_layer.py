"""Keeps the newest valid operations, and reports the progress of each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from reconciler.errors import Conflict, Invalid, InvalidManifests, ReconcilerError, Unreachable
from reconciler.resources.operation import Operation, written_moment
from reconciler.resources.verbs import CLUSTER_KIND, REVISION_KIND
from reconciler.source.sources import Source
from reconciler.state import ObjectKey, Rejection
from reconciler.state.desired import abbreviated
from reconciler.state.identity import CLUSTER
from reconciler.state.operations import Effect, Operations, Standing
from reconciler.state.reports.status import Event

log = logging.getLogger(__name__)

PROBLEMS_SHOWN_MAX = 20


class OperationsLayer:
    """The operations in force. Invalid ones change nothing: the last valid ones stay.

    ``tell`` publishes an event.
    """

    def __init__(self, source: Source, clock: Callable[[], float], tell: Callable[[Event], None]) -> None:
        self._source = source
        self._clock = clock
        self._tell = tell
        self.operations = Operations()
        self.rejection: Rejection | None = None
        self._begun = False
        self._reported: dict[str, Effect] | None = None
        """The last report on each operation; None before the first, which is about earlier ones too."""

    async def read(self) -> None:
        await self._recall()
        problem = ""
        try:
            found = await self._source.operations()
        except InvalidManifests as error:
            problem = listed(error, before="operations: ")
        except (Invalid, Unreachable, Conflict, OSError) as error:
            problem = f"the operations cannot be read: {error}"
        else:
            if found.revision or not self.operations.revision:
                self.operations = found
            else:
                problem = (
                    "the branch operations is gone; push it again, from a clone or a backup:"
                    f" git push HOME/cluster.git {self.operations.revision[:10]}:refs/heads/operations"
                )
        self._reject(problem)

    async def _recall(self) -> None:
        """After a start, take the operations that were in force last, in case the newest are invalid."""
        if self._begun:
            return
        try:
            self.operations = await self._source.last_operations()
        except (ReconcilerError, OSError) as error:
            log.warning("cannot read which operations were in force: %s", error)
        self._begun = True

    def _reject(self, problem: str) -> None:
        rejection = Rejection(problem) if problem else None
        if rejection is not None and rejection != self.rejection:
            text = f"{rejection.line} (the previous operations stay in force)"
            self._tell(Event(self._clock(), CLUSTER, True, "OperationsRejected", text))
        self.rejection = rejection

    def report(self, effects: Iterable[Effect]) -> None:
        """Publish an event for each operation that began, ended, or has another standing now."""
        now = {effect.operation.metadata.name: effect for effect in effects}
        before, self._reported = self._reported, now
        if before is None:
            return  # a restart is no news
        for name, effect in now.items():
            if before.get(name) != effect:
                self._tell(self._event(effect))
        for name in before.keys() - now.keys():
            if before[name].standing is not Standing.EXPIRED:
                operation = before[name].operation
                text = f"{operation.spec.verb} by {operation.who} was undone"
                self._tell(Event(self._clock(), _object(operation), False, "OperationUndone", text))

    def _event(self, effect: Effect) -> Event:
        spec = effect.operation.spec
        if spec.verb == "approve":
            text = (
                f"{abbreviated(spec.target.name)} was approved by {effect.operation.who}{_why(spec.reason)}"
            )
            return Event(self._clock(), CLUSTER, False, "RevisionApproved", text)
        reason, text = "OperationInForce", f"{spec.verb} by {effect.operation.who}"
        if effect.standing is Standing.EXPIRED:
            reason, text = "OperationExpired", f"{text} has ended"
        elif spec.until is not None:
            text = f"{text} until {written_moment(spec.until)}"
        if effect.standing is Standing.NO_TARGET:
            reason = "OperationWithoutTarget"
            text = f"{text}: there is no {spec.target}; undo it with: reconciler undo {effect.operation.metadata.name}"
        else:
            text += _why(spec.reason)
        return Event(self._clock(), _object(effect.operation), False, reason, text)


def _why(reason: str) -> str:
    return f": {reason}" if reason else ""


def _object(operation: Operation) -> ObjectKey:
    target = operation.spec.target
    return CLUSTER if target.kind in (CLUSTER_KIND, REVISION_KIND) else ObjectKey(target.kind, target.name)


def listed(error: InvalidManifests, before: str = "", others: str = "") -> str:
    """Return the first problems, one a line, each after ``before``. ``others``: how to list them all."""
    lines = [f"{before}{problem}" for problem in error.problems[:PROBLEMS_SHOWN_MAX]]
    hidden = len(error.problems) - len(lines)
    return "\n".join([*lines, *([f"and {hidden} more problems{others}"] if hidden else [])])
