"""A spec that did not come up."""

from __future__ import annotations

from dataclasses import dataclass

from .formed_spec import FormedSpec


@dataclass(frozen=True, slots=True)
class Rollback:
    """A spec that did not come up in a deployment, and the one that is served instead.

    A rollback from before whole specs were kept has only weights: it applies to its Model as long as that names them,
    and until ``restarted_at`` changes.
    """

    model: str
    """The Model of the spec that was tried."""
    tried: str
    """Its weights: repository and commit, as ``weights.named``."""
    served: str
    """The weights of the spec that had served before, in the same form."""
    restarted_at: str
    """``spec.restartedAt`` of the deployment then."""
    at: float
    text: str
    """The problem, for people."""
    spec_tried: FormedSpec | None = None
    """The spec that did not come up. A different one is tried again."""
    spec_served: FormedSpec | None = None
    """The spec that had served before."""
