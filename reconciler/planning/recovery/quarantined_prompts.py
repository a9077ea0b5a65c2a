"""Reports the prompts that the gateway refuses because they ended groups: each is an incident of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from reconciler.planning.context.world import World
from reconciler.state import DeploymentName, FaultClass, ReplicaId, Trouble
from reconciler.state.subjects import RequestSubject
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt

REPORTED_SECONDS = 60.0
"""Time for which a quarantine is reported: it lasts longer, but nobody can do anything about it."""


def troubles(world: World) -> Iterator[Trouble]:
    """Yield the ends that prompts caused, for a short time after their quarantine. Has the id and size of a request, and
    nothing of its content."""
    gateway = world.observed.gateway
    for prompt in gateway.quarantined if gateway else ():
        deployment = world.desired.deployments.get(DeploymentName(prompt.model))
        if deployment is None or not prompt.ended or abs(world.now - prompt.at) >= REPORTED_SECONDS:
            continue
        until = datetime.fromtimestamp(prompt.until, UTC).strftime("%H:%M:%S UTC")
        yield Trouble(
            _replica(prompt, prompt.ended[-1]).key,
            RequestSubject(prompt.request),
            _fault(world, prompt),
            f"request {prompt.request} ({prompt.shape}) ended {_groups(prompt)}",
            f"its prompt is refused until {until}; other requests go on",
        )


def _groups(prompt: QuarantinedPrompt) -> str:
    """Name the groups that a prompt ended."""
    names = [f"epoch {group.epoch} of {_replica(prompt, group)}" for group in prompt.ended]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _fault(world: World, prompt: QuarantinedPrompt) -> FaultClass:
    """Return the class of the last group's end, which the attempt after it was to remedy."""
    last = prompt.ended[-1]
    tried = world.memory.attempts.get(_replica(prompt, last), ())
    after = (attempt.fault for attempt in tried if attempt.epoch > last.epoch)
    return next(after, None) or FaultClass.RANK_CRASH


def _replica(prompt: QuarantinedPrompt, group: EndedGroup) -> ReplicaId:
    return ReplicaId(DeploymentName(prompt.model), group.replica)
