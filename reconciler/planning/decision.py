"""What one rule of a ladder answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.state import Plan, Refusal, Step, Waiting


@dataclass(frozen=True, slots=True)
class Decision:
    """Steps to take, things to wait for, things refused: a piece of the plan."""

    steps: tuple[Step, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    refused: tuple[Refusal, ...] = ()

    def __add__(self, other: Decision) -> Decision:
        return Decision(self.steps + other.steps, self.waiting + other.waiting, self.refused + other.refused)


NOTHING = Decision()


def whole(decisions: Iterable[Decision]) -> Plan:
    """All pieces as one plan, in their order."""
    pieces = tuple(decisions)
    return Plan(
        tuple(step for piece in pieces for step in piece.steps),
        tuple(waiting for piece in pieces for waiting in piece.waiting),
        tuple(refusal for piece in pieces for refusal in piece.refused),
    )
