"""The decision of one rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.state import Plan, Refusal, Step, Trouble, Waiting


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


def combined(decisions: Iterable[Decision]) -> Plan:
    """Join all pieces into one plan, in their order."""
    pieces = tuple(decisions)
    return Plan(
        tuple(step for piece in pieces for step in piece.steps),
        tuple(waiting for piece in pieces for waiting in piece.waiting),
        tuple(refusal for piece in pieces for refusal in piece.refused),
        tuple(trouble for piece in pieces for trouble in piece.troubles),
    )
