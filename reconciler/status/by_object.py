"""The parts of manifests and plan for each object, sorted once, so that no status has to search the whole plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.resources import End
from reconciler.state import (
    Desired,
    FaultClass,
    ForgetRank,
    NodeName,
    Plan,
    Quarantine,
    Refusal,
    RefusedBecause,
    RepairNode,
    Step,
    Trouble,
    Waiting,
    WaitingFor,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.subjects import LinkSubject


@dataclass(frozen=True, slots=True)
class ByObject:
    """The first step, waiting, refusal and trouble of a plan for each object, and the declared cables of each node."""

    steps: Mapping[ObjectKey, Step]
    waiting: Mapping[ObjectKey, Waiting]
    refused: Mapping[ObjectKey, Refusal]
    troubles: Mapping[ObjectKey, Trouble]
    """Only troubles that need a person."""
    waits: Mapping[tuple[ObjectKey, WaitingFor], str]
    """The first text for each reason."""
    refusals: Mapping[tuple[ObjectKey, RefusedBecause], str]
    """The first text for each reason."""
    ports: Mapping[ObjectKey, Trouble]
    """Troubles with the configuration of Thunderbolt ports, whether they need a person or not."""
    repairs: Mapping[NodeName, RepairNode]
    quarantined: Mapping[NodeName, Quarantine]
    ends: Mapping[str, list[End]]
    """The ends of declared links, by their nodes."""

    def of_node(self, key: ObjectKey) -> tuple[object, ...]:
        """Return every part that the status of a Node follows from."""
        name = NodeName(key.name)
        return (
            *(
                of_object.get(key)
                for of_object in (self.steps, self.waiting, self.refused, self.troubles, self.ports)
            ),
            *(self.waits.get((key, reason)) for reason in (WaitingFor.RUNTIME, WaitingFor.REPAIR)),
            self.refusals.get((key, RefusedBecause.RUNTIME_UNAVAILABLE)),
            self.repairs.get(name),
            self.quarantined.get(name),
            self.ends.get(name),
        )

    @classmethod
    def of(cls, desired: Desired, plan: Plan) -> ByObject:
        ends: dict[str, list[End]] = {}
        for fabric in desired.fabrics.values():
            for link in fabric.spec.cables:
                for end in link:
                    ends.setdefault(end.node, []).append(end)
        return cls(
            {step.object: step for step in reversed(plan.steps) if not isinstance(step, ForgetRank)},
            # An object that waits for an improvement, or for a change of its manifest, is fine: the plan shows it.
            {
                w.object: w
                for w in reversed(plan.waiting)
                if w.reason not in (WaitingFor.QUIET, WaitingFor.WINDOW)
            },
            {refusal.object: refusal for refusal in reversed(plan.refused)},
            {key: each for each in reversed(plan.troubles) if each.person for key in _ends(each)}
            | {each.object: each for each in reversed(plan.troubles) if each.person},
            {(waiting.object, waiting.reason): waiting.text for waiting in reversed(plan.waiting)},
            {(refusal.object, refusal.reason): refusal.text for refusal in reversed(plan.refused)},
            {t.object: t for t in reversed(plan.troubles) if t.fault is FaultClass.PORT_CONFIGURATION},
            {step.node: step for step in reversed(plan.steps) if isinstance(step, RepairNode)},
            {found.node: found for found in reversed(plan.quarantined)},
            ends,
        )


def _ends(trouble: Trouble) -> tuple[ObjectKey, ...]:
    """Return the objects that a trouble is about: of a cable the machines at both of its ends, which name each other."""
    if isinstance(trouble.subject, LinkSubject):
        return tuple(ObjectKey("Node", name) for name in trouble.subject.nodes)
    return (trouble.object,)
