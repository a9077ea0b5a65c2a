"""The outcome of a step."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Step


@dataclass(frozen=True, slots=True)
class Outcome:
    """One executed step. ``problem`` is empty if it was done."""

    step: Step
    seconds: float
    problem: str = ""
    detail: str = ""
    """Additional information about a successful step."""

    @property
    def done(self) -> bool:
        """Return whether the step had its effect, or found it already there."""
        return not self.problem
