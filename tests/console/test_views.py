"""What the pages say of a cluster, before it is HTML."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, cast

import pytest

from reconciler.console.pages import PAGES, Page, Pages
from reconciler.console.snapshot import Snapshot
from reconciler.console.view.deployment import deployment
from reconciler.console.view.details import spec_lines
from reconciler.console.view.history import commit
from reconciler.console.view.incident import stories
from reconciler.console.view.node import node
from reconciler.console.view.overview import overview
from reconciler.wire.answers import (
    Commit,
    Commits,
    Held,
    HeldChange,
    HeldChanges,
    SourceCondition,
    SourceState,
)
from reconciler.wire.objects import DeploymentStatus

from .snapshots import enlarged, loading, page_of, recorded

PAGE_BYTES_MAX = 95_000
"""What is left of 150 kB beside the style sheet and the scripts."""


def test_a_group_that_loads_says_how_much_of_how_much_and_which_phase_it_is_in() -> None:
    found = deployment(loading(), "large")
    assert found is not None
    (group,) = found.groups
    assert (group.loaded_bytes, group.total_bytes) == (412 * 10**9, 700 * 10**9)
    assert [(step.phase, step.state) for step in group.steps] == [
        ("starting", "past"),
        ("rendezvous", "past"),
        ("loading", "now"),
        ("warm", "to come"),
        ("ready", "to come"),
    ]
    assert "Loading 412 of 700 GB" in page_of(loading(), "/deployments/{name}", "large")


def test_the_ladder_says_why_a_transport_was_skipped() -> None:
    found = deployment(loading(), "large")
    assert found is not None
    why = "no cable joins studio-1 and studio-2"
    assert [(rung.transport, rung.state, rung.why) for rung in found.groups[0].ladder] == [
        ("jaccl", "skipped", why),
        ("jaccl-ring", "skipped", why),
        ("ring", "in use", ""),
        ("ring-lan", "not needed", ""),
    ]


def test_a_spec_is_shown_as_it_is_written() -> None:
    spec = {"model": "large", "keep": True, "nodes": {"min": 2, "of": ["a", "b"]}, "empty": {}, "none": None}
    assert list(spec_lines(spec)) == [
        "model: large",
        "keep: true",
        "nodes:",
        "  min: 2",
        "  of: [a, b]",
        "empty: {}",
        "none: null",
    ]


def test_what_needs_a_person_is_first_and_is_not_said_twice() -> None:
    shown = overview(recorded("cable-pulled"))
    assert (shown.headline, shown.state) == ("large is not served", "bad")
    first, second = shown.troubles
    assert first.about == "node/studio-1"
    assert first.person.startswith("plug a Thunderbolt 5 cable")
    assert first.text.startswith("no cable joins")
    assert first.person not in first.text
    assert second.doing == "form the group on its next transport"
    assert second.doing not in second.text
    assert [machine.text for machine in shown.machines] == [""] * 4, "of a machine that is told of above"


def test_the_machine_at_the_other_end_of_a_cable_needs_attention_and_is_told_of_once() -> None:
    pulled = recorded("cable-pulled")
    objects = copy.deepcopy(pulled.objects)
    stalled = [
        condition
        for each in objects
        if (each["kind"], each["metadata"]["name"]) in (("Node", "studio-1"), ("Node", "studio-2"))
        for condition in each["status"]["conditions"]
        if condition["type"] == "Stalled"
    ]
    stalled[1].update(stalled[0])
    shown = overview(replace(pulled, objects=objects))
    assert [each.about for each in shown.troubles] == [each.about for each in overview(pulled).troubles]
    assert [each.state for each in shown.machines] == ["bad", "bad", "ready", "ready"]


def test_the_memory_of_nodes_that_share_a_machine_is_counted_once() -> None:
    snapshot = recorded("four-macs")
    assert overview(snapshot).figures.memory_bytes == 4 * 512 * 2**30
    nodes: list[Any] = [
        {**row, "host": "this one", "gpuWatts": 30.0, "gpuUse": 0.4} for row in snapshot.usage["nodes"]
    ]
    shared = overview(replace(snapshot, usage={**snapshot.usage, "nodes": nodes}))
    assert (shared.figures.memory_bytes, shared.figures.watts) == (512 * 2**30, 30)
    assert shared.machines[0].gpu_use == 0.4


def held_revision() -> Snapshot:
    """The four machines, and a newer revision that removes too much."""
    snapshot = recorded("four-macs")
    held: Held = {
        "revision": "2" * 40,
        "removes": ["node/studio-1"],
        "of": 8,
        "runs": [],
        "command": "reconciler approve 2222222222",
        "text": "it removes much",
    }
    return replace(snapshot, status={**snapshot.status, "held": held})


def test_a_held_revision_has_its_button_on_the_overview() -> None:
    html = page_of(held_revision(), "/")
    assert f'href="/act/approve/revision/{"2" * 40}">Approve</a>' in html
    assert "reconciler approve 2222222222" in html


def remote_condition(type: str, status: str, reason: str, message: str) -> SourceCondition:
    """A condition of the remote repository."""
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": None}


ASKED: SourceState = {
    "url": "https://git.example/c.git",
    "branch": "main",
    "answeredAt": "2025-11-25T09:00:00.000Z",
    "awaySince": None,
    "conditions": [
        remote_condition("Ready", "True", "Following", "main is at 1f0c2a9b3d"),
        remote_condition("Stalled", "False", "Following", ""),
    ],
}


def test_how_it_stands_with_the_remote_repository_is_on_the_overview() -> None:
    snapshot = recorded("four-macs")
    assert overview(snapshot).remote is None
    well = replace(snapshot, remote=ASKED)
    html = Pages().parts(PAGES[0], "", well)["headline"]
    assert "https://git.example/c.git" in html
    assert "fetched</span> <time" in html
    assert overview(well).troubles == ()
    away: SourceState = {
        **ASKED,
        "awaySince": "2025-11-25T08:00:00.000Z",
        "conditions": [
            remote_condition("Ready", "False", "SourceAway", "it does not answer"),
            remote_condition("Stalled", "True", "SourceAway", "it does not answer"),
        ],
    }
    shown = overview(replace(snapshot, remote=away))
    assert shown.remote is not None
    assert (shown.remote.state, shown.remote.problem) == ("bad", "it does not answer")
    (trouble,) = shown.troubles
    assert (trouble.text, trouble.since) == ("it does not answer", "2025-11-25T08:00:00.000Z")
    unread = overview(replace(snapshot, remote={"problem": "source.yaml: expected a url"})).remote
    assert unread is not None
    assert unread.problem == "source.yaml: expected a url"


def test_a_machine_that_waits_for_a_person_is_amber_while_all_models_are_served() -> None:
    served = next(each for each in recorded("four-macs").objects if each["kind"] == "ModelDeployment")
    pulled = recorded("cable-pulled")
    others = [each for each in pulled.objects if each["kind"] != "ModelDeployment"]
    assert overview(replace(pulled, objects=(*others, served))).state == "busy"


def test_a_cable_that_is_missed_by_no_group_yet_is_to_be_looked_at() -> None:
    pulled = replace(recorded("cable-pulled"), incidents=())
    fabrics = tuple(each for each in pulled.objects if each["kind"] == "Fabric")
    rest = tuple(each for each in recorded("four-macs").objects if each["kind"] != "Fabric")
    shown = overview(replace(pulled, objects=(*rest, *fabrics)))
    assert shown.state == "busy"
    (trouble,) = shown.troubles
    assert (trouble.about, trouble.link) == ("fabric/emulated", "/cabling")
    assert trouble.person.startswith("plug a Thunderbolt 5 cable")


def test_an_incident_is_a_story_with_when_it_was_seen_decided_done_and_over() -> None:
    open_ones = [story for story in stories(recorded("cable-pulled")) if story.over is None]
    assert [story.incident["id"] for story in open_ones] == [6, 5]
    (healed,) = stories(recorded("cable-pulled"), "1")
    assert healed.over == pytest.approx(4.51)
    assert (100.0, "outcome") in healed.marks


def test_a_machine_has_its_cables_its_ranks_and_its_facts() -> None:
    shown = node(recorded("four-macs"), "studio-2")
    assert shown is not None
    assert [rank["rank"] for rank in shown.ranks] == [1]
    assert shown.picture is not None
    assert ("Chip", "Apple M3 Ultra") in shown.facts
    assert node(recorded("four-macs"), "nobody") is None


def test_events_of_one_object_alone() -> None:
    page = next(page for page in PAGES if page.path == "/events")
    assert page.address("node/studio-1") == "/events?object=node%2Fstudio-1"
    parts = Pages().parts(page, "node/studio-1", recorded("cable-pulled"))
    assert "its agent answers" in parts["events"]
    assert "EpochAllocated" not in parts["events"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_pages_stay_small_for_200_machines(page: Page) -> None:
    shown = Pages().whole(page, "model-007", enlarged(200), wall=False)
    assert len(shown.encode()) < PAGE_BYTES_MAX


def with_status(of: str, **status: Any) -> Snapshot:
    """The four machines, with further fields of the status of a ModelDeployment."""
    snapshot = recorded("four-macs")
    objects = copy.deepcopy(snapshot.objects)
    for each in objects:
        if each["kind"] == "ModelDeployment" and each["metadata"]["name"] == of:
            each["status"] = cast(DeploymentStatus, {**each["status"], **status})
    return replace(snapshot, objects=objects, commits=commits(commit_of(f"modeldeployment/{of}")))


def commits(*found: dict[str, Any]) -> Commits:
    """The newest commits."""
    return Commits(version="1", items=cast("list[Commit]", list(found)), problem=None)


def commit_of(of: str) -> dict[str, Any]:
    """The newest commit, in force for some objects, which changed this one."""
    return {
        "revision": "1" * 40,
        "branch": "main",
        "author": "Olga",
        "time": "2025-11-25T00:00:00Z",
        "subject": "Change it",
        "state": "InForce",
        "objects": [{"object": of, "action": "changed"}],
        "objectsLeftOut": 0,
    }


def minute(number: int) -> str:
    return f"2025-11-25T00:0{number}:00Z"


@pytest.mark.parametrize("branch", ["main", "operations"])
@pytest.mark.parametrize(
    ("later", "followed"),
    [
        ((), [1, 2, 3, 4, 5]),
        (((3, "large"),), [1, 2]),
        (((3, "large"), (5, "large")), [1, 2]),
        (((2, "other"), (4, "large"), (5, "large")), [1, 2, 3]),
        (((2, "other"), (3, "other")), [1, 2, 3, 4, 5]),
    ],
)
def test_the_page_of_a_commit_ends_with_the_next_commit_of_the_same_object(
    later: tuple[tuple[int, str], ...], followed: list[int], branch: str
) -> None:
    own = {**commit_of("modeldeployment/large"), "branch": branch, "time": minute(1)}
    newer = [
        {**commit_of(f"modeldeployment/{name}"), "revision": str(at) * 40, "time": minute(at)}
        for at, name in later
    ]
    snapshot = recorded("four-macs")
    event = {**snapshot.events[0], "object": "modeldeployment/large"}
    events: list[Any] = [
        {**event, "time": minute(at), "revision": own["revision"] if at == 1 else None} for at in range(6)
    ]
    shown: Any = {**own, "message": "", "files": [], "undo": [], "acts": []}

    found = commit(
        replace(snapshot, commits=commits(*reversed(newer), own), events=tuple(events), answer=shown)
    )

    assert not isinstance(found, str)
    assert [each["time"] for each in found.did] == [minute(at) for at in followed]


def test_a_change_that_waits_is_told_of_with_its_window_its_end_and_the_command_that_lets_it_in() -> None:
    held = {"syncWindow": "office", "until": "2025-11-25T18:00:00Z", "text": "its change is held"}
    waiting = {
        "object": "modeldeployment/large",
        "reason": "HeldBySyncWindow",
        "text": held["text"],
        "until": held["until"],
    }
    snapshot = replace(
        with_status("large", heldBy=held), plan=cast(Any, {"refused": [], "waiting": [waiting]})
    )
    shown = page_of(snapshot, "/deployments/{name}", "large")
    assert "for sync window office" in shown
    assert "2025-11-25 18:00:00 UTC" in shown
    assert "reconciler override office --reason WHY" in shown
    assert held["text"] not in shown, "it would be said twice"
    assert "It is as declared before the waiting change." in shown
    assert "Last changed by" not in shown
    assert "A change to it waits" not in page_of(recorded("four-macs"), "/deployments/{name}", "large")


@pytest.mark.parametrize(
    ("kind", "path", "name", "said"),
    [
        (
            "Node",
            "/nodes/{name}",
            "studio-1",
            "A change to it waits</b> for sync window freeze. To apply it now",
        ),
        ("Fabric", "/cabling", "", "A change to it waits</b> for sync window freeze. To apply it now"),
        ("Model", "/deployments/{name}", "large", "A change to its model waits</b> for sync window freeze."),
    ],
)
def test_what_shows_an_object_whose_change_waits_says_so(kind: str, path: str, name: str, said: str) -> None:
    snapshot = recorded("four-macs")
    assert "for sync window" not in page_of(snapshot, path, name)
    objects = copy.deepcopy(snapshot.objects)
    for each in objects:
        if each["kind"] == kind:
            each["status"]["heldBy"] = {"syncWindow": "freeze", "until": None, "text": "its change is held"}
    assert said in page_of(replace(snapshot, objects=objects), path, name)


def test_a_deployment_under_an_operation_is_not_said_to_be_as_git_declares_it() -> None:
    scaled = {"verb": "scale", "replicas": 3, "by": "Olga", "standing": "InForce"}
    shown = page_of(with_status("large", operations=[scaled]), "/deployments/{name}", "large")
    assert "Last changed by Olga" in shown
    assert "Operations change what git declares: scaled to 3." in shown
    older = replace(with_status("large", operations=[scaled]), commits=commits())
    shown = page_of(older, "/deployments/{name}", "large")
    assert "declares it, except for operations" in shown


def test_a_commit_of_too_many_objects_to_tell_hides_what_is_older() -> None:
    snapshot = with_status("large")
    own = commit_of("modeldeployment/large")
    bulk = {
        **commit_of("modeldeployment/other"),
        "revision": "2" * 40,
        "subject": "Change all",
        "objectsLeftOut": 5,
    }
    held = {**bulk, "revision": "3" * 40, "state": "Held"}
    shown = page_of(replace(snapshot, commits=commits(held, bulk, own)), "/deployments/{name}", "large")
    assert "Last changed by Olga" not in shown
    assert "none of the newest commits changed it" not in shown
    assert "Last changed by this commit or an older one" in shown
    assert f'<a href="/history/{"2" * 40}">Change all</a>' in shown
    assert "3" * 40 not in shown
    shown = page_of(replace(snapshot, commits=commits(held, own, bulk)), "/deployments/{name}", "large")
    assert "Last changed by Olga" in shown
    named = {**bulk, "objects": own["objects"]}
    shown = page_of(replace(snapshot, commits=commits(named, own)), "/deployments/{name}", "large")
    assert "Last changed by Olga, <time" in shown
    assert f'<a href="/history/{"2" * 40}">Change all</a>' in shown


def test_the_history_has_a_command_for_each_window_that_keeps_changes_out() -> None:
    changes: list[HeldChange] = [
        {"object": f"modeldeployment/{name}", "window": window, "until": None}
        for name, window in (("a", "office"), ("b", "freeze"), ("c", "office"))
    ]
    held_changes: HeldChanges = {"revision": "1" * 40, "changes": changes, "text": "three wait"}
    snapshot = recorded("four-macs")
    shown = page_of(replace(snapshot, status={**snapshot.status, "heldChanges": held_changes}), "/history")
    assert "Changes wait for sync windows office, freeze" in shown
    for window in ("office", "freeze"):
        assert shown.count(f"reconciler override {window} --reason WHY") == 1
