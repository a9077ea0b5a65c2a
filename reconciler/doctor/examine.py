"""Collects all findings: those of the plan, and those of ``checks``."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import replace

from reconciler import status
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis.rules import DISK_LOCKED, NO_LOCAL_NETWORK
from reconciler.planning.nodes import settings
from reconciler.planning.nodes.eligible import open_to
from reconciler.planning.recovery import cable_faults, machine_faults
from reconciler.planning.transport import link_check
from reconciler.resources import ModelDeployment
from reconciler.state import (
    Attempt,
    DeploymentName,
    Desired,
    FaultClass,
    NodeName,
    NodeObservation,
    ObjectKey,
    Refusal,
    RefusedBecause,
    Trouble,
)
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.incident import Entry, EntryKind, Incident, title
from reconciler.state.subjects import LinkSubject, NodeSubject, ReplicaSubject
from reconciler.status import AS_WISHED, Snapshots, certificate, examinations
from reconciler.status.by_object import ByObject
from reconciler.status.node_comparison import NodeComparison
from reconciler.status.unserved import OF_MACHINES
from reconciler.transports import VERBS

from .checks import CHECKS, Machine
from .finding import MEANS, Examination, Finding
from .unknowns import unknowns

_ORDER: dict[FaultClass | None, int] = {
    **{fault: number for number, fault in enumerate(FaultClass)},
    None: len(FaultClass),
}
_BARRED = {
    "HostKeyChanged": "if the machine was reinstalled, compare its fingerprint, then run: reconciler node"
    " add --again {node}; else find out which machine answers at its address",
    "LoginRefused": "allow the controller's user to log in to {node}, with ssh-copy-id as the message says",
}
"""Steps for a machine that denies access, by reason; for other reasons the problem says what to do."""
_BARRED_TOGETHER = {
    DISK_LOCKED: "the disks of {nodes} wait to be unlocked after a restart (FileVault)",
    NO_LOCAL_NETWORK: "macOS forbids this program the local network (Local Network Privacy): it reaches none of {nodes}",
}
"""Said once for all machines that deny access for the same reason, as after a power cut."""
_FEW_MEANS = "clients beyond these connections are refused"
_FEW_STEPS = (
    "raise the hard limit where `reconciler up` is started: `ulimit -Hn 65536` in a shell, LimitNOFILE in a systemd unit,"
    " NumberOfFiles under HardResourceLimits in a launchd service; then restart `reconciler up`"
)
_CERTIFICATE_MEANS = (
    "clients refuse to connect to an endpoint whose certificate has expired, or that has none"
)
_EXAMINATION_MEANS = "what its ranks need of memory is a guess where no other node has said it, and a group may be refused or placed wrongly"
_EXAMINATION_STEPS = (
    "nothing: it is tried again by itself, each time for longer; if it keeps failing, see what else uses memory and disk on"
    " {node}, and its agent's log"
)
_TOLD = (*AS_WISHED, RefusedBecause.UNWRITABLE)
"""Refusals that are no findings: those a person has asked for, and what ``state_directory`` says."""
_MEANS_OF_KIND = {
    "Model": "groups are formed only on machines that have its weights",
    CLUSTER.kind: "the manifests of this revision are not in force, and those before stay",
}
_ANY = ModelDeployment.model_validate(
    {
        "apiVersion": "reconciler/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "any"},
        "spec": {"model": "any", "parallelism": {"nodes": {"min": 1, "max": 8}}},
    },
    strict=False,
)
"""The transports by which machines are judged while no deployment uses several of them."""


def examine(
    snapshots: Snapshots, names: Collection[NodeName] = (), incidents: Iterable[Incident] = ()
) -> Examination:
    """Return all findings and unknowns of these nodes, or of all; nodes without a manifest are ignored.

    ``incidents``: the open ones. A group that comes up again is reported until it serves, although nothing is wrong
    with it any more.
    """
    wanted = tuple(sorted(set(names) or set(snapshots.desired.nodes)))
    world = World(
        _as_spread(snapshots.desired), snapshots.observed, snapshots.memory, snapshots.now, entropy=""
    )
    likeness = NodeComparison.of(snapshots.desired, snapshots.observed)
    planned = ByObject.of(snapshots.desired, snapshots.plan)
    looked = [_machine(world, snapshots, planned, likeness, name) for name in wanted]
    troubles = [*_troubles(world, snapshots), *_open_incidents(incidents, snapshots)]
    found = [_finding(world, trouble) for trouble in troubles]
    found += [finding for machine in looked for finding in _checked(machine)]
    found += _of_gateway(snapshots)
    found += _of_models(snapshots)
    found += [
        _refusal(snapshots, each) for each in snapshots.plan.refused if not _is_told(snapshots, each, found)
    ]
    concerned = [each for each in found if not names or set(each.nodes) & set(wanted)]
    for reason, seen in _BARRED_TOGETHER.items():
        concerned = _said_once(world, concerned, reason, seen)
    unknown = tuple(each for machine in looked for each in unknowns(machine))
    return Examination(wanted, _without_repeats(concerned), unknown)


def _as_spread(desired: Desired) -> Desired:
    """Add a deployment that would use any transport if no deployment spans several nodes."""
    if desired.spreads:
        return desired
    return replace(desired, deployments={**desired.deployments, DeploymentName("any"): _ANY})


def _machine(
    world: World, snapshots: Snapshots, planned: ByObject, likeness: NodeComparison, name: NodeName
) -> Machine:
    manifest = world.desired.nodes.get(name)
    rdma = manifest is not None and machine_faults.uses(world, VERBS, name)
    conditions = status.node.conditions(
        name, snapshots.desired, snapshots.observed.nodes.get(name), planned, likeness.condition(name)
    )
    cables = [link for of_one in snapshots.plan.cabling.values() for link in of_one]
    declared = frozenset(end.receptacle for link in cables for end in link.link if end.node == name)
    foreign = settings.foreign_addresses(world, name)
    return Machine(world.node(name), manifest, conditions, rdma, declared, foreign)


def _troubles(world: World, snapshots: Snapshots) -> Iterable[Trouble]:
    """Return the plan's troubles; those of machines and cables also if no group uses them yet."""
    yield from snapshots.plan.troubles
    for name in sorted(world.desired.nodes):
        yield from machine_faults.without_pending_restart(world, machine_faults.troubles(world, name))
    yield from cable_faults.troubles(world, link_check.compare(world))


def _open_incidents(incidents: Iterable[Incident], snapshots: Snapshots) -> Iterator[Trouble]:
    """Yield open incidents of groups that do not serve again yet; machines, cables and refusals are judged by their
    facts."""
    known = {trouble.subject for trouble in snapshots.plan.troubles}
    for incident in incidents:
        replica = incident.replica
        if incident.open and replica and incident.subject not in known:
            sign = _latest_sign(incident, snapshots.memory.attempts.get(replica, ()))
            fault = sign.fault or incident.fault
            if isinstance(fault, FaultClass):
                yield Trouble(
                    incident.object, incident.subject, fault, sign.text, incident.doing, incident.person
                )


def _latest_sign(incident: Incident, attempts: Sequence[Attempt]) -> Entry:
    """Return the entry for which the newest group was formed: if the previous group could not be formed, that is the
    current problem, and no longer the end of the first."""
    seen = [entry for entry in incident.entries if entry.kind is EntryKind.SEEN]
    reasons = {attempt.fault for attempt in attempts[-1:] if attempt.epoch > incident.epoch_before}
    latest = [entry for entry in seen if entry.fault in reasons][-1:]
    explaining = [entry for entry in seen if entry.fault is incident.fault]
    return next(
        iter([*latest, *explaining]), Entry(incident.opened_at, EntryKind.SEEN, title(incident.fault))
    )


def _finding(world: World, trouble: Trouble) -> Finding:
    nodes = _concerned(world, trouble)
    steps = (
        trouble.person or f"nothing: the controller is working on it ({trouble.doing or 'at the next pass'})"
    )
    seen = world.node(nodes[0]) if nodes and trouble.object.kind == "Node" else None
    barred = trouble.fault is FaultClass.HOST_UNREACHABLE and seen is not None and bool(seen.barred)
    if barred and seen is not None:
        steps = _way_in(seen)
    of_cable = isinstance(trouble.subject, LinkSubject)
    return Finding(
        trouble.fault,
        tuple(ObjectKey("Node", name) for name in nodes) if of_cable else (trouble.object,),
        nodes,
        trouble.seen,
        MEANS[trouble.fault],
        steps,
        bool(trouble.person) or barred,
    )


def _way_in(seen: NodeObservation) -> str:
    """Say what lets the controller in again."""
    return seen.remedy or _BARRED.get(seen.barred, "follow the message on {node}").format(node=seen.name)


def _said_once(world: World, findings: list[Finding], reason: str, seen: str) -> list[Finding]:
    """Return the findings with one instead of those of several machines that deny access for this reason."""
    fault = FaultClass.HOST_UNREACHABLE
    denied = [each for each in findings if each.fault is fault and _denies(world, each, reason)]
    nodes = tuple(dict.fromkeys(name for each in denied for name in each.nodes))
    if len(nodes) < 2:
        return findings
    steps = "; ".join(dict.fromkeys(_way_in(world.node(name)) for name in nodes))
    keys = tuple(ObjectKey("Node", name) for name in nodes)
    one = Finding(fault, keys, nodes, seen.format(nodes=", ".join(nodes)), MEANS[fault], steps, True)
    return [one, *(each for each in findings if each not in denied)]


def _denies(world: World, finding: Finding, reason: str) -> bool:
    of_machines = all(key.kind == "Node" for key in finding.objects)
    return of_machines and all(world.node(name).barred == reason for name in finding.nodes)


def _concerned(world: World, trouble: Trouble) -> tuple[NodeName, ...]:
    """Return the machines of a trouble's subject: a machine, both ends of a cable, or all machines of a group."""
    match trouble.subject:
        case NodeSubject(name):
            return (name,)
        case LinkSubject() as link:
            return link.nodes
        case ReplicaSubject(replica):
            record = world.memory.groups.get(replica)
            return record.members if record else ()
        case _:
            return ()


def _checked(machine: Machine) -> Iterator[Finding]:
    name = machine.name
    python = shlex.quote(machine.seen.report.python) if machine.seen.report else "PYTHON"
    for check in CHECKS:
        if seen := check.seen(machine):
            steps = check.steps.format(node=name, python=python, removal=machine.removal)
            yield Finding(check.fault, (ObjectKey("Node", name),), (name,), seen, check.means, steps, True)


def _of_models(snapshots: Snapshots) -> Iterator[Finding]:
    """Yield the weights of which no node's runtime has said what it can do with them, although it was asked."""
    for name, model in sorted(snapshots.desired.models.items()):
        failed = examinations.failed(model.spec.source.folder, snapshots.desired, snapshots.observed)
        for state in examinations.conditions(name, snapshots):
            if state.status:
                nodes = tuple(failed)
                steps = _EXAMINATION_STEPS.format(node=nodes[0])
                key = ObjectKey("Model", name)
                yield Finding(
                    None, (key,), nodes, state.message, _EXAMINATION_MEANS, steps, False, state.type
                )


def _of_gateway(snapshots: Snapshots) -> Iterator[Finding]:
    """Yield what the gateway lacks, and what is wrong with its certificate. Its process has its limits from whatever started `reconciler up`."""
    seen, wanted = snapshots.observed.gateway, snapshots.desired.gateway
    if wanted is None:
        return
    key = ObjectKey("Gateway", wanted.metadata.name)
    for state in certificate.conditions(key.name, snapshots):
        if state.status and wanted.spec.tls is not None:
            steps = certificate.steps(wanted.spec.tls)
            yield Finding(None, (key,), (), state.message, _CERTIFICATE_MEANS, steps, True, "Certificate")
    if seen is not None and seen.shortage:
        yield Finding(FaultClass.LAUNCH_CONTEXT, (key,), (), seen.shortage, _FEW_MEANS, _FEW_STEPS, True)


def _is_told(snapshots: Snapshots, refusal: Refusal, found: Sequence[Finding]) -> bool:
    """Return whether other findings say why something is impossible, or a person wants it so."""
    of_machines = refusal.reason in OF_MACHINES and not _machines_of(snapshots, refusal.object).isdisjoint(
        name for each in found for name in each.nodes
    )
    of_itself = any(each.person and refusal.object in each.objects for each in found)
    return refusal.reason in _TOLD or of_machines or of_itself


def _machines_of(snapshots: Snapshots, key: ObjectKey) -> Set[NodeName]:
    """Return the machines that may be the reason: those that a deployment may use, unless even all of them are too few."""
    nodes = snapshots.desired.nodes
    deployment = snapshots.desired.deployments.get(DeploymentName(key.name))
    if key.kind != "ModelDeployment" or deployment is None:
        return nodes.keys()
    usable = {name for name, node in nodes.items() if open_to(node, deployment.spec.placement)}
    return usable if len(usable) >= deployment.spec.parallelism.nodes.min else set()


def _refusal(snapshots: Snapshots, refusal: Refusal) -> Finding:
    """Return what is wanted and impossible, and no machine is the reason: nothing else would tell that nothing is served."""
    key = refusal.object
    means = _MEANS_OF_KIND.get(key.kind, "it is not as its manifest says")
    if key.kind == "ModelDeployment":
        means = status.serving_text(DeploymentName(key.name), snapshots)
    about = (
        "" if key == CLUSTER else f"; all that is known: reconciler describe {key.kind.lower()}/{key.name}"
    )
    steps = refusal.person or f"as it says{about}"
    nodes = (NodeName(key.name),) if key.kind == "Node" else ()
    return Finding(None, (key,), nodes, refusal.text, means, steps, True, refusal.reason.value)


def _without_repeats(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings about a machine and the groups that suffer from it; steps for a person take precedence over what
    the controller tries."""
    merged: dict[tuple[FaultClass | None, str], Finding] = {}
    machines_first = sorted(findings, key=lambda each: each.objects[0].kind != "Node")
    for finding in machines_first:
        key = _explaining(merged, finding)
        before = merged.get(key)
        merged[key] = _together(before, finding) if before else finding
    return tuple(sorted(merged.values(), key=lambda each: (_ORDER[each.fault], each.nodes, each.seen)))


def _explaining(
    known: dict[tuple[FaultClass | None, str], Finding], finding: Finding
) -> tuple[FaultClass | None, str]:
    """Return the key of an equal finding, or of the machine's finding that explains a group's; else its own key."""
    key = (finding.fault, finding.seen)
    if key in known or finding.person or finding.objects[0].kind == "Node":
        return key
    return next((k for k, each in known.items() if _explains(each, finding)), key)


def _explains(one: Finding, other: Finding) -> bool:
    of_machine = one.objects[0].kind == "Node" and one.person
    return of_machine and one.fault is other.fault and set(one.nodes) <= set(other.nodes)


def _together(one: Finding, other: Finding) -> Finding:
    first = other if other.person and not one.person else one
    objects = tuple(dict.fromkeys((*one.objects, *other.objects)))
    nodes = tuple(dict.fromkeys((*one.nodes, *other.nodes)))
    return replace(first, objects=objects, nodes=nodes)
