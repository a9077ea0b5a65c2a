"""The spec that a replica is to be served with now."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.resources import Model, ModelDeployment
from reconciler.state import WaitingFor


@dataclass(frozen=True, slots=True)
class Hold:
    """The reason why a replica is not replaced yet."""

    reason: WaitingFor
    text: str
    until: float | None = None
    """When it may be over, in seconds of the controller's clock; None if it is not known."""


@dataclass(frozen=True, slots=True)
class Target:
    """The spec of one replica: that of the manifests, or one that it was served with before."""

    deployment: ModelDeployment
    model: Model | None
    """None if no manifest has the Model."""
    change: str = ""
    """The difference between its group and the spec that it is to get, for people; empty without one."""
    hold: Hold | None = None
    """None if the replica may be replaced as soon as there is a reason to."""
    returned: str = ""
    """The earlier spec that is served again, because that of the manifests did not come up; empty if none is."""
    extra: bool = False
    """True for an extra replica, which serves while those of the manifests are changed."""
