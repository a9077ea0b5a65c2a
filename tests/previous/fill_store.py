"""A store with a row in every table, written by the version before: ``python fill_store.py PATH`` prints what that
version reads in it. ``contents`` reads a store of either version.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import reconciler
from reconciler.resources import KINDS
from reconciler.state import (
    Attempt,
    Desired,
    FaultClass,
    GroupRecord,
    Reboot,
    Suspicion,
    TransportFailure,
)
from reconciler.state.identity import DeploymentName, NodeName, ObjectKey, ReplicaId
from reconciler.state.reports.incident import Entry, EntryKind, Incident
from reconciler.state.reports.notification import Notification
from reconciler.state.reports.status import Condition, Event, ObjectStatus
from reconciler.state.rollback import Rollback
from reconciler.store import EventFilter, IncidentFilter, Store

API = "reconciler/v1alpha1"
TINY = ReplicaId(DeploymentName("tiny"), 0)
SSH = {
    "host": "studio-1.local", "port": 2222, "user": "ada", "identityFile": "/etc/keys/studio",
    "hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbP3JZnBSCsPkM5XQd6EuNmIpQ8p2mFHwqbIqNlNnY7",
}  # fmt: skip


def plain(value: Any) -> Any:
    """A value as JSON has it: classes by their fields, subjects as text, mappings as pairs, manifests without what is as
    by default."""
    if (
        type(value).__name__.endswith(("Subject", "Facts", "FormedSpec"))
        and type(value).__name__ != "MachineFacts"
    ):
        return str(value)  # the version before has them as text
    if dataclasses.is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return sorted(([plain(key), plain(each)] for key, each in value.items()), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(each) for each in value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return value


def contents(store: Store) -> dict[str, Any]:
    """Everything in a store that its version can read, by what it is."""
    in_force = store.objects.in_force()
    assert in_force is not None
    return {
        "groups and nodes": plain(store.contents.read()),
        "statuses": plain(store.statuses()),
        "events": plain(store.events(EventFilter())),
        "incidents": plain(store.incidents.find(IncidentFilter())),
        "last incident": store.incidents.last_id(),
        "notice": plain(store.notifications.next("on-call")),
        "revision": in_force.revision,
        "objects": plain(in_force.objects()),
        "generations": plain(in_force.generations),
        "created": plain(in_force.created),
        "kept": plain(store.objects.kept()),
        "approved": plain(store.objects.approved()),
    }


def _manifest(kind: str, name: str, **spec: Any) -> Any:
    body = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
    return KINDS[kind].model_validate(body, strict=False)


def _spec(context: int) -> Any:
    """The version before has it as text."""
    return f'{{"model":{{"source":{{"path":"tiny"}}}},"serving":{{"context":{context}}},"spec":{{"model":"tiny"}}}}'


def fill(store: Store) -> None:
    """Write to every table."""
    members = (NodeName("node-a"), NodeName("studio-1"))
    facts: Any = '{"node-a boot":"one","node-a/3 cable":"yes"}'  # the version before has them as text
    spec, before = _spec(2048), _spec(1024)
    spread = {"strategy": "tensor", "nodes": 2}
    deployment = _manifest(
        "ModelDeployment", "tiny", model="tiny", parallelism=spread, serving={"context": 2048}
    )
    leaving = _manifest("Model", "old", source={"path": "old"})
    nodes = [_manifest("Node", "node-a", local={}), _manifest("Node", "studio-1", ssh=SSH)]
    served = [*nodes, _manifest("Model", "tiny", source={"path": "tiny"}), deployment]
    store.objects.apply(Desired.of("r1", [*served, leaving]), 1.5)
    store.objects.apply(Desired.of("r2", served), 2.5, {ObjectKey("Model", "tiny"): served[2]})
    store.objects.approve("r3", 3.0, "ada")
    for node in nodes:
        store.keep_agent(node.metadata.name, node.spec.access)

    group = GroupRecord(
        TINY, 1, members, 22_003, "s3cret", "print", 5.5, 1 << 30, model="tiny", strategy="tensor",
        strategy_why="asked for", transport="ring", transport_why="jaccl: no cable", boots=("boot-a", "boot-b"),
        facts=facts, needs=(1 << 30, 1 << 29), weights="org/tiny@a", weights_before="org/tiny@b",
        context=2048, spec=spec, spec_before=before,
    )  # fmt: skip
    fault = FaultClass.RANK_CRASH
    attempt = Attempt(
        1,
        5.5,
        "RankExited",
        fault,
        "rank 1 was killed",
        "1/1",
        served=20.5,
        suspicion=Suspicion.FAINT,
        port_taken=True,
    )
    failed = TransportFailure("jaccl", facts, 5.4, "no queue pair", FaultClass.QUEUE_PAIRS, "plug it in")
    store.allocate(group, attempt, failed, [(members[1], "boot-b")])
    store.prove(TINY, 1, 6.5)
    store.note_reboot(members[1], Reboot(7.0, "boot-b", "RDMA is wedged", False))
    store.set_back(
        TINY.deployment,
        Rollback("tiny", "org/tiny@c", "org/tiny@a", "2026", 8.0, "it did not come up", spec, before),
    )

    key = ObjectKey("ModelDeployment", "tiny")
    condition = Condition("Ready", True, "ReplicasReady", "1 of 1 replicas serve", 6.5, 1)
    event = Event(3.5, key, True, "Tested", "a rank ended", "exit/x", "r2", 3.25)
    store.put_statuses({key: ObjectStatus((condition,), 1, {"replicas": 1})}, [event])
    entry = Entry(9.0, EntryKind.SEEN, "rank 1 was killed", fault, 1.5, 2)
    subject: Any = "replica/tiny/0"  # the version before has it as text
    story = Incident(
        4, key, subject, fault, 9.0, present=fault, doing="formed again", person="look at it",
        asked=(fault,), reopened=1, unserved_since=9.0, unserved_seconds=2.0, epoch_before=1, epoch=1,
        entries=(entry,), left_out=3,
    )  # fmt: skip
    told = Notification("on-call", 4, "opened", 9.0, "rank 1 was killed", 1, 10.0, None, "refused")
    store.put_incidents([story], [], [told], 9.0)


if __name__ == "__main__":
    opened = Store(Path(sys.argv[1]))
    fill(opened)
    print(json.dumps({"package": reconciler.__file__, "contents": contents(opened)}))
    opened.close()
