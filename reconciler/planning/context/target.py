"""The spec that a replica is to be served with now."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.resources import Model, ModelDeployment
from reconciler.state import WaitingFor


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a replica is not replaced yet."""

    reason: WaitingFor
    text: str
    until: float | None = None
    """When that may be over, in seconds of the controller's clock; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Target:
    """The spec of one replica: that of the manifests, or one that it was served with before."""

    deployment: ModelDeployment
    model: Model | None
    """None where no manifest has the Model."""
    change: str = ""
    """In what its group differs from the spec that it is to come to, for people; empty where it does not."""
    hold: Hold | None = None
    """None where the replica may be replaced as soon as there is a reason to."""
    returned: str = ""
    """What is served again, where the spec of the manifests did not come up; empty where it is not so."""
    extra: bool = False
    """Whether it serves beside those that the manifests ask for, while these are changed."""
