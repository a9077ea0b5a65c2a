"""What became of a step."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Step


@dataclass(frozen=True, slots=True)
class Outcome:
    """One executed step. ``problem`` is empty when it was done."""

    step: Step
    seconds: float
    problem: str = ""
    detail: str = ""
    """Something worth telling of a step that was done."""

    @property
    def done(self) -> bool:
        """Whether the step had its effect (or found it there already)."""
        return not self.problem
