"""Weights that did not come up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rollback:
    """A commit that did not come up in a deployment, and the one that is served instead."""

    model: str
    """The Model that names it."""
    tried: str
    """Repository and commit, as ``weights.named``."""
    served: str
    """The weights that had served before, in the same form."""
    restarted_at: str
    """``spec.restartedAt`` of the deployment then: with another one it is tried again."""
    at: float
    text: str
    """The problem, for people."""
