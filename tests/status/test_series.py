"""The cluster's own metrics: what is counted, and that it stays few series of harmless labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning.context.reboot_requests import AWAY_SECONDS
from reconciler.resources import Manifest
from reconciler.resources.verbs import VERBS
from reconciler.state import (
    Contact,
    Desired,
    FaultClass,
    Hold,
    MachineFacts,
    NodeName,
    ObjectKey,
    Reboot,
    Rejection,
    subjects,
)
from reconciler.state.jobs import RunReason
from reconciler.state.reports.incident import Incident
from reconciler.status import Snapshots, statuses
from reconciler.status.series import FAMILIES, OBJECTS_MAX, View
from reconciler.wire.launch import Phase
from reconciler.wire.node import Load
from tests.examples import examples
from tests.status.jobs import TRAIN, failed, job, run, succeeded
from tests.worlds import World, deployment, fabric, gateway, model, node, notifier, settled, two_nodes

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
OTHERS_MAX, NODE_MAX, DEPLOYMENT_MAX, MODEL_MAX, FABRIC_MAX, JOB_MAX = (
    int(number.replace(",", ""))
    for number in re.findall(
        r"(\d+)\s(?:series|more for|for)", PAGE.split("There are at most")[1].split(";")[0]
    )
)
"""How many series there are at most, as the page says: in any case, and for each object of a kind."""
A, B = NodeName("node-a"), NodeName("node-b")
TEXT = "of what somebody has said"


def view_of(world: World, desired: Desired | None = None, **more: Any) -> View:
    snapshots = Snapshots(
        desired or world.desired(), world.observed(), world.memory(), world.plan(), world.now
    )
    return View(snapshots, statuses(snapshots, {}), **more)


def values(view: View) -> Mapping[str, float]:
    """Each series as Prometheus writes it, with its value."""
    return {
        family.name + "".join(f",{label}={value}" for label, value in zip(family.labels, of, strict=True)): v
        for family in FAMILIES
        for of, v in family.series(view)
    }


def incident(number: int, fault: FaultClass, person: str = "") -> Incident:
    return Incident(number, ObjectKey("Node", A), subjects.read(f"node/{A}"), fault, 0.0, person=person)


def test_a_cluster_that_serves() -> None:
    world = settled(two_nodes(replicas=1))
    found = values(view_of(world, version="1.2"))
    assert found["reconciler_build_info,version=1.2"] == 1
    assert found["reconciler_deployment_spec_replicas,deployment=tiny"] == 1
    assert found["reconciler_deployment_status_replicas_ready,deployment=tiny"] == 1
    assert found["reconciler_deployment_ranks,deployment=tiny,phase=ready"] == 2
    assert found["reconciler_node_status_condition,node=node-a,condition=Ready"] == 1
    wrong = (
        "_lost",
        "_incidents_",
        "_held",
        "_rejected",
        "_suspended",
        "_back_off",
        "_refused",
        "_unschedulable",
    )
    assert not [name for name, value in found.items() if value and any(part in name for part in wrong)]
    assert not [name for name in found if "source" in name], "there is no remote repository"


def test_a_node_that_is_lost_and_one_that_is_only_cordoned() -> None:
    world = settled(World([node(A), node(B, unschedulable=True), model(), deployment(nodes=1)]))
    world.lose(A)
    before = values(view_of(world))
    assert before["reconciler_node_lost,node=node-a"] == 0, "it may answer again at once"
    world.now += 31
    found = values(view_of(world))
    assert found["reconciler_node_lost,node=node-a"] == 1
    assert found["reconciler_node_lost,node=node-b"] == 0
    assert found["reconciler_node_unschedulable,node=node-b"] == 1
    assert "reconciler_node_memory_total_bytes,node=node-a" not in found, "nobody knows it now"
    assert found["reconciler_node_memory_total_bytes,node=node-b"] == 64 * 2**30


def test_a_node_that_was_asked_to_restart_is_not_lost_before_that_takes_too_long() -> None:
    world = settled(two_nodes())
    world.reboots[A] = Reboot(world.now, "boot", "C18: held")
    world.lose(A)
    world.now += AWAY_SECONDS - 1
    assert values(view_of(world))["reconciler_node_lost,node=node-a"] == 0
    world.now += 1
    assert values(view_of(world))["reconciler_node_lost,node=node-a"] == 1


def test_machines_tell_of_power_heat_and_memory() -> None:
    world = settled(two_nodes())
    view = view_of(world)
    seen = view.snapshots.observed.nodes[A]
    assert seen.report is not None
    warm = replace(
        seen,
        report=replace(seen.report, load=Load(0.0, 5 * 2**30)),
        facts=MachineFacts(gpu_watts=61.5, throttled=True),
    )
    observed = replace(view.snapshots.observed, nodes={A: warm})
    found = values(replace(view, snapshots=replace(view.snapshots, observed=observed)))
    assert found["reconciler_node_memory_free_bytes,node=node-a"] == 5 * 2**30
    assert found["reconciler_node_gpu_power_watts,node=node-a"] == 61.5
    assert found["reconciler_node_throttled,node=node-a"] == 1


def test_weights_that_are_being_loaded() -> None:
    world = settled(two_nodes())
    for id, (place, rank) in world.ranks.items():
        world.ranks[id] = place, replace(rank, phase=Phase.LOADING, loaded_bytes=3, total_bytes=10)
    found = values(view_of(world))
    assert found["reconciler_deployment_ranks,deployment=tiny,phase=loading"] == 2
    assert found["reconciler_deployment_ranks,deployment=tiny,phase=ready"] == 0
    assert found["reconciler_deployment_loaded_bytes,deployment=tiny"] == 6
    assert found["reconciler_deployment_load_bytes,deployment=tiny"] == 20


def test_a_replica_that_fails_again_and_again_backs_off() -> None:
    world = settled(two_nodes())
    for _ in range(8):
        for id in [id for id, (_, rank) in world.ranks.items() if rank.exit is None]:
            world.end_rank(id, code=1)
        world.settle()
    found = values(view_of(world))
    assert found["reconciler_deployment_status_replicas_back_off,deployment=tiny"] == 1
    assert found["reconciler_plan_waiting,reason=BackOff"] == 1
    assert found["reconciler_deployment_status_replicas_ready,deployment=tiny"] == 0


def test_revisions_that_are_not_in_force_incidents_operations_and_the_source() -> None:
    world = settled(two_nodes())
    desired = replace(world.desired(), hold=Hold("r2", (ObjectKey("Node", A),), 3), rejection=Rejection(TEXT))
    hot, cable = incident(1, FaultClass.RANK_CRASH), incident(2, FaultClass.LINK_DOWN, person=TEXT)
    found = values(
        view_of(world, desired, incidents=(hot, cable), verbs=("cordon", "cordon"), source_up=False)
    )
    assert found["reconciler_revision_held"] == found["reconciler_revision_rejected"] == 1
    assert found["reconciler_revision_suspended"] == found["reconciler_operations_rejected"] == 0
    assert found["reconciler_incidents_open,class=C8"] == found["reconciler_incidents_open,class=C3"] == 1
    assert found["reconciler_incidents_person_needed,class=C8"] == 0
    assert found["reconciler_incidents_person_needed,class=C3"] == 1
    assert found["reconciler_operations_in_force,verb=cordon"] == 2
    assert found["reconciler_source_up"] == 0
    assert "reconciler_source_last_success_timestamp_seconds" not in found, "it has never answered"


@st.composite
def views(draw: st.DrawFn) -> View:
    """Of clusters of any size, in any state that a machine, a rank or the source can be in."""
    nodes = [NodeName(f"node-{number}") for number in range(draw(st.integers(0, 4)))]
    manifests: list[Manifest] = [*map(node, nodes), model(), notifier(), gateway()]
    manifests += [
        deployment(f"d-{number}", nodes=1, replicas=draw(st.integers(0, 3)))
        for number in range(draw(st.integers(0, 3)))
    ]
    if draw(st.booleans()):
        manifests.append(job(schedule="0 3 * * *"))
    if len(nodes) > 1 and draw(st.booleans()):
        manifests.append(fabric("studios", (f"{nodes[0]}/1", f"{nodes[1]}/1")))
    world = settled(World(manifests))
    for id, (place, rank) in world.ranks.items():
        world.ranks[id] = place, replace(rank, phase=draw(st.sampled_from(Phase.ALL[:-1])), detail=TEXT)
    view = view_of(
        world,
        incidents=[
            incident(number, draw(st.sampled_from(FaultClass)), draw(st.sampled_from(["", TEXT])))
            for number in range(draw(st.integers(0, 30)))
        ],
        verbs=draw(st.lists(st.sampled_from(sorted(VERBS)), max_size=30)),
        source_up=draw(st.none() | st.booleans()),
        answered_at=draw(st.none() | st.floats(1, 2e9)),
    )
    seen = {
        name: replace(
            each,
            contact=draw(st.sampled_from(Contact)),
            problem=TEXT,
            facts=MachineFacts(gpu_watts=1.0, throttled=draw(st.none() | st.booleans())),
        )
        for name, each in view.snapshots.observed.nodes.items()
    }
    snapshots = replace(view.snapshots, observed=replace(view.snapshots.observed, nodes=seen))
    runs = draw(st.sampled_from([(), (run(),), (succeeded(1), failed(2))]))
    memory = replace(snapshots.memory, runs={each.id: each for each in runs})
    snapshots = replace(snapshots, memory=memory)
    return replace(view, snapshots=snapshots, statuses=statuses(snapshots, {}))


def test_a_job_that_has_failed_and_begins_again_by_its_schedule() -> None:
    world = settled(World([node(A), job(schedule="0 3 * * *")]))
    view = view_of(world)
    memory = replace(view.snapshots.memory, runs={each.id: each for each in (succeeded(1), failed(2))})
    snapshots = replace(view.snapshots, memory=memory)
    cause = Incident(1, ObjectKey("Job", TRAIN), subjects.JobSubject(TRAIN), RunReason.BACKOFF_LIMIT, 0.0)
    found = values(View(snapshots, statuses(snapshots, {}), (cause,)))
    of = f"job_name={TRAIN}"
    assert found[f"reconciler_job_status_condition,{of},condition=Failed"] == 1
    assert found[f"reconciler_job_status_condition,{of},condition=Complete"] == 0
    assert found[f"reconciler_job_status_active,{of}"] == 0
    assert found[f"reconciler_job_status_run,{of}"] == 2
    assert found[f"reconciler_job_status_duration_seconds,{of}"] == 40
    assert found[f"reconciler_job_status_completion_time,{of}"] == 240
    assert found[f"reconciler_job_next_schedule_time,{of}"] > world.now
    assert found["reconciler_incidents_open,class=JobFailed"] == 1
    assert found["reconciler_incidents_open,class=NotServed"] == 0


@settings(max_examples=examples(100))
@given(views())
def test_there_are_as_many_series_as_the_page_says_at_most_and_no_text_is_a_label(view: View) -> None:
    desired = view.snapshots.desired
    found = [(family, labels) for family in FAMILIES for labels, _ in family.series(view)]
    most = OTHERS_MAX + NODE_MAX * len(desired.nodes) + DEPLOYMENT_MAX * len(desired.deployments)
    most += MODEL_MAX * len(desired.models) + FABRIC_MAX * len(desired.fabrics)
    most += JOB_MAX * len(desired.jobs)
    assert len(found) <= most
    assert len({(family.name, labels) for family, labels in found}) == len(found), "each series is there once"
    for family, labels in found:
        assert len(labels) == len(family.labels)
        assert all(re.fullmatch(r"[A-Za-z0-9._-]*", label) for label in labels)


def test_of_very_many_objects_the_first_have_series() -> None:
    world = World([node(f"node-{number:05}") for number in range(OBJECTS_MAX + 5)])
    view = View(Snapshots(world.desired(), world.observed(), world.memory(), world.plan(), 0.0), {})
    names = [
        labels[0]
        for each in FAMILIES
        if each.name == "reconciler_node_lost"
        for labels, _ in each.series(view)
    ]
    assert len(names) == OBJECTS_MAX
    assert max(names) == "node-00999"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_are_as_prometheus_wants_them(family: Any) -> None:
    assert re.fullmatch(r"reconciler(_[a-z0-9]+)+", family.name)
    assert not family.name.endswith(("_total", "_count", "_sum", "_bucket")), "those are of other types"
    assert not re.search(r"_(ms|milli|minutes|mb|mib|gib|percent)\b", family.name), "base units alone"
    assert family.text.endswith(".")
