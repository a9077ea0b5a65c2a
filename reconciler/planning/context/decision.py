"""The decision of one rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.state import (
    NodeName,
    ObjectKey,
    Plan,
    Refusal,
    Step,
    Trouble,
    Waiting,
    WaitingFor,
    WorkloadId,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """A piece of the plan: steps to take, things to wait for, refusals and troubles."""

    steps: tuple[Step, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    refused: tuple[Refusal, ...] = ()
    troubles: tuple[Trouble, ...] = ()

    def __add__(self, other: Decision) -> Decision:
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Decision(
            self.steps + other.steps,
            self.waiting + other.waiting,
            self.refused + other.refused,
            self.troubles + other.troubles,
        )


NOTHING = Decision()


def waiting(workload: WorkloadId, reason: WaitingFor, text: str, until: float | None = None) -> Waiting:
    return Waiting(workload.key, reason, f"{workload}: {text}", until, workload)


def wait(key: ObjectKey, reason: WaitingFor, text: str, until: float | None = None) -> Decision:
    """Say what an object waits for; ``until`` in seconds of the controller's clock."""
    return Decision(waiting=(Waiting(key, reason, text, until),))


def wait_for_node(name: NodeName, reason: WaitingFor, text: str, until: float | None = None) -> Decision:
    return wait(ObjectKey("Node", name), reason, f"{name}: {text}", until)


def combined(decisions: Iterable[Decision]) -> Plan:
    """Join all pieces into one plan, in their order."""
    pieces = tuple(decisions)
    return Plan(
        tuple(step for piece in pieces for step in piece.steps),
        tuple(waiting for piece in pieces for waiting in piece.waiting),
        tuple(refusal for piece in pieces for refusal in piece.refused),
        tuple(trouble for piece in pieces for trouble in piece.troubles),
    )
