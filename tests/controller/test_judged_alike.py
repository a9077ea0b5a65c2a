"""Whoever asks what becomes of a revision is told the same: a push, a preview, a plan of recorded facts, the loop, the remote
repository and the console."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.admission.jobs import runnable
from reconciler.admission.judge import Incoming
from reconciler.controller.admin import bodies
from reconciler.controller.admin.preview import preview
from reconciler.controller.admin.pushes import Pushes
from reconciler.controller.desired_state import DesiredState
from reconciler.controller.mirror.standing import Standing
from reconciler.controller.mirror.verdict import verdict
from reconciler.facts.recorded import facts_of
from reconciler.resources import Job, Manifest
from reconciler.resources.operation import Operation
from reconciler.source.git.pushes import Push
from reconciler.source.git.repository import REF
from reconciler.source.pushed import Pushed
from reconciler.source.sources import Revision
from reconciler.state import Desired, Memory, ObjectKey, Observed, Plan
from reconciler.state.operations import Operations
from reconciler.state.reports.status import Event
from reconciler.status import Snapshots
from reconciler.store import Store
from reconciler.wire.admin import Preview
from tests.properties.test_operations import operation
from tests.properties.test_sync_windows import by_key
from tests.worlds import deployment, gateway, job, model, node, sync_window

REFUSED, HELD, SUSPENDED, COMES = "refused", "held", "suspended", "comes into force"


def documents(manifests: Collection[Manifest]) -> tuple[Any, ...]:
    return tuple(SimpleNamespace(manifest=each) for each in manifests)


@dataclass
class Commits:
    """A source whose commits are in memory."""

    main: list[tuple[Manifest, ...]] = field(default_factory=list)
    laid: tuple[Operation, ...] = ()
    allowed: frozenset[str] = frozenset()

    def commit(self, manifests: Collection[Manifest], allowed: Collection[str]) -> str:
        self.main.append(tuple(manifests))
        self.allowed = frozenset(allowed)
        return self.head

    @property
    def head(self) -> str:
        return f"r{len(self.main)}"

    def describe(self) -> str:
        return "git"

    async def read(self) -> Revision:
        return Revision(self.head, documents(self.main[-1]))

    async def at(self, revision: str) -> Revision | None:
        return Revision(revision, documents(self.main[int(revision[1:]) - 1]))

    async def operations(self) -> Operations:
        return Operations(f"o{len(self.main)}{len(self.laid)}", self.laid)

    async def last_operations(self) -> Operations:
        return Operations()

    async def last_in_force(self) -> Revision | None:
        return None

    async def words_allowed(self, since: str, revision: str) -> frozenset[str]:
        return self.allowed if revision == self.head else frozenset()


@dataclass
class Loop:
    """Notes what it is asked to plan for."""

    plan: Plan = field(default_factory=Plan)
    asked: list[Desired] = field(default_factory=list)

    async def preview(self, desired: Desired) -> Plan:
        self.asked.append(desired)
        return Plan()


@dataclass
class Cluster:
    """As much of a controller as judges revisions."""

    folder: Path
    source: Commits = field(default_factory=Commits)
    serving: frozenset[ObjectKey] = frozenset()
    now: float = 0.0

    def __post_init__(self) -> None:
        self.store = Store(self.folder / "store.db")
        self.state = DesiredState(
            cast(Any, self.source),
            self.store,
            lambda: self.now,
            self._tell,
            lambda keys: self.serving & {*keys},
        )

    def _tell(self, event: Event) -> None:
        self.store.add_events((event,))

    @property
    def parts(self) -> Any:
        snapshots = Snapshots(
            self.state.desired, cast(Any, Observed({}, None)), Memory(token=0), Plan(), self.now
        )
        return SimpleNamespace(
            around=SimpleNamespace(source=self.source),
            clock=lambda: self.now,
            desired_state=self.state,
            store=self.store,
            last=snapshots,
        )


async def by_push(cluster: Cluster, wished: Sequence[Manifest], allowed: Collection[str]) -> str:
    push = Push("r0", f"r{len(cluster.source.main) + 1}", REF)
    pushed = Pushed(push, documents(wished), frozenset(allowed))
    body = await Pushes(cluster.parts, cast(Any, Loop())).foreseen(pushed)
    if not body["accept"]:
        return REFUSED
    first = body["lines"][0] if body["lines"] else ""
    return HELD if " held: " in first else SUSPENDED if " suspended: " in first else COMES


async def by_preview(
    cluster: Cluster, wished: Sequence[Manifest], allowed: Collection[str]
) -> tuple[str, Desired]:
    files = {
        (isinstance(each, Job) and each.spec.manifest_path) or f"{index}.yaml": written(each)
        for index, each in enumerate(wished)
    }
    loop = Loop()
    body = await preview(cluster.parts, cast(Any, loop), Preview(files, allowed=tuple(allowed)))
    return _of_body(body), loop.asked[-1]


def written(manifest: Manifest) -> str:
    """A manifest as its author writes it."""
    return json.dumps(manifest.body(defaults=False))


def _of_body(body: Any) -> str:
    refused = body["serving"] or body["runs"]
    return SUSPENDED if body["suspended"] else REFUSED if refused else HELD if body["held"] else COMES


def by_facts(cluster: Cluster, wished: Sequence[Manifest], allowed: Collection[str]) -> str:
    """What `plan -f --facts` makes of it, where nothing serves: recorded facts have the groups, and these clusters none."""
    in_force = tuple(cluster.store.objects.keys())
    desired, laid = cluster.state.desired, cluster.source.laid
    runnable = cluster.state.runnable
    facts = facts_of(
        desired, Observed({}, None), Memory(token=0), cluster.now, in_force, laid, runnable=runnable
    )
    found = facts.judge(Incoming("this change", by_key(wished), allowed=allowed), cluster.now)
    return SUSPENDED if found.suspended else HELD if found.hold else COMES


def by_loop(desired: Desired) -> str:
    out = desired.suspended is not None and not desired.suspended.rest
    return HELD if desired.hold is not None else SUSPENDED if out else COMES


def by_remote(cluster: Cluster) -> str:
    seen = SimpleNamespace(last=SimpleNamespace(revision=cluster.source.head), refusal="")
    found = verdict(cast(Standing, seen), cluster.state.desired, {})
    assert found is not None
    starts = {"held: it would ": HELD, "seen, and suspended": SUSPENDED}
    return next((outcome for start, outcome in starts.items() if found.text.startswith(start)), COMES)


def by_console(cluster: Cluster) -> str:
    found = bodies.kept_out(cluster.state.desired)
    of_head = found["suspended"] is not None and found["suspended"]["revision"] == cluster.source.head
    rest = of_head and cluster.state.desired.revision == cluster.source.head
    return HELD if found["held"] else SUSPENDED if of_head and not rest else COMES


# --- what is drawn -------------------------------------------------------------------------------------


def wished_by(draw: random.Random) -> list[Manifest]:
    """Manifests of a cluster, most of them as in other draws."""
    made: list[Manifest] = [
        node(name, unschedulable=draw.random() < 0.1, **allowance(draw)) for name in some(draw, NODES, 0.9)
    ]
    made += [model(name, draw.choice(["x", "x", "y"])) for name in MODELS]
    made += [
        deployment(name, model=draw.choice(MODELS), replicas=draw.choice([1, 1, 1, 2]))
        for name in some(draw, DEPLOYMENTS, 0.85)
    ]
    made += [gateway()] if draw.random() < 0.9 else []
    made += [window(draw, name) for name in some(draw, WINDOWS, 0.5)]
    made += [drawn_job(draw, name) for name in some(draw, JOBS, 0.8)]
    return made


def allowance(draw: random.Random) -> dict[str, Any]:
    """The permission of a node to run jobs; most have none."""
    user = draw.choice([{}, {}, {"user": "jobs"}])
    paths = draw.choice([None, None, None, None, ["jobs/*"], ["jobs/j1.yaml"]])
    return {} if paths is None else {"jobs": {"allow": {"paths": paths, **user}}}


def drawn_job(draw: random.Random, name: str) -> Job:
    """A job, most often the same, at one of two paths; some fields begin no new run."""
    spec: dict[str, Any] = {
        "program": {"script": {"command": ["python", draw.choice(["a.py", "a.py", "a.py", "b.py"])]}},
        "priority": draw.choice([0, 5]),
        "suspend": draw.random() < 0.3,
        "manifestPath": f"{draw.choice(['jobs', 'jobs', 'other'])}/{name}.yaml",
        **draw.choice([{}, {}, {}, {"schedule": "0 8 * * *"}]),
    }
    return job(name, **spec)


def some(draw: random.Random, names: Sequence[str], share: float) -> list[str]:
    share = share if draw.random() < 0.8 else 0.3
    return [name for name in names if draw.random() < share]


def window(draw: random.Random, name: str) -> Manifest:
    scopes: list[dict[str, Any]] = [{}, {"deployments": ["a"]}, {"deployments": ["b*"]}, {"nodes": ["*"]}]
    kind, duration = draw.choice([("allow", "9h"), ("deny", "1h"), ("deny", "5h")])
    schedule = draw.choice(["0 8 * * *", "0 22 * * *", "0 */6 * * *"])
    return sync_window(name, kind=kind, schedule=schedule, duration=duration, **draw.choice(scopes))


def laid_by(draw: random.Random) -> tuple[Operation, ...]:
    every = [
        operation("suspend", "Cluster", "main", reason="freeze"),
        operation("override", "SyncWindow", "w1", reason="incident", until="2030-01-01T00:00:00Z"),
        operation("cordon", "Node", "n1"),
        operation("scale", "ModelDeployment", "a", replicas=3),
    ]
    return tuple(each for each in every if draw.random() < 0.25)


JOBS = ("j1", "j2")
NODES, MODELS, DEPLOYMENTS, WINDOWS = (
    ("n1", "n2", "n3", "n4"),
    ("m1", "m2"),
    ("a", "b1", "b2"),
    ("w1", "w2", "w3"),
)
STEPS = 25
GATEWAY = ObjectKey("Gateway", "main")
BEGIN = 1_790_000_000.0


# --- the property --------------------------------------------------------------------------------------


SEEDS = int(os.environ.get("RECONCILER_JUDGED", "4"))
"""Each judges 25 revisions. RECONCILER_JUDGED=4000 judges 100,000."""
TOGETHER = 4


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
async def test_six_who_ask_are_told_the_same(home: Path, first: int) -> None:
    met: Counter[str] = Counter()
    for seed in range(first, first + TOGETHER):
        (home / str(seed)).mkdir()
        met += await walk(Cluster(home / str(seed), now=BEGIN), random.Random(seed))
    assert met.keys() == {REFUSED, HELD, SUSPENDED, COMES}


async def walk(cluster: Cluster, draw: random.Random) -> Counter[str]:
    """Judge one revision after the other; each is pushed whatever was said of it before."""
    met: Counter[str] = Counter()
    cluster.source.commit(wished_by(draw), ())
    for _ in range(STEPS):
        cluster.now += draw.choice([60.0, 3600.0, 9 * 3600.0, 24 * 3600.0])
        cluster.source.laid = laid_by(draw)
        await cluster.state.refresh(None)  # the operations come in
        wished, served = wished_by(draw), some(draw, DEPLOYMENTS, 0.5)
        deployments = {ObjectKey("ModelDeployment", name) for name in served}
        cluster.serving = frozenset({GATEWAY, *deployments})
        gone = cluster.store.objects.keys() - by_key(wished).keys()
        allowed = [key.name for key in gone if draw.random() < 0.7]
        allowed += [f"run/{name}" for name in JOBS if draw.random() < 0.7]
        before = cluster.state.runnable
        pushed = await by_push(cluster, wished, allowed)
        foreseen, planned = await by_preview(cluster, wished, allowed)
        recorded = by_facts(cluster, wished, allowed)
        cluster.source.commit(wished, allowed)
        await cluster.state.refresh(None)
        desired = cluster.state.desired
        looked = by_loop(desired)
        met[pushed] += 1
        ran = {each.name for each in desired.hold.runs} if desired.hold else set()
        assert not {f"run/{name}" for name in ran} & {*allowed}, "a job that is named is no reason"
        if looked == COMES:
            unnamed = [
                each
                for each in wished
                if not (isinstance(each, Job) and f"run/{each.metadata.name}" in allowed)
            ]
            assert runnable(unnamed) <= before, "only what ran before, or what is named, comes into force"
        if foreseen != SUSPENDED:  # who pushes is told of what serves before anything else
            assert pushed == foreseen
        whole = HELD if foreseen == REFUSED else foreseen
        assert looked == whole
        assert by_remote(cluster) == by_console(cluster) == whole
        if not gone & deployments:
            assert recorded == whole, (
                "recorded facts have no groups here, so that only the gateway serves by them"
            )
        if looked in (COMES, SUSPENDED):
            assert planned.objects() == desired.objects(), "a preview plans for what comes into force"
        if looked == COMES:
            changes = [
                each.object
                for held in (planned, desired)
                for each in (held.held_changes.changes if held.held_changes else ())
            ]
            assert len(changes) == 2 * len(set(changes)), "and says the same of what windows keep out"
    cluster.store.close()
    return met
