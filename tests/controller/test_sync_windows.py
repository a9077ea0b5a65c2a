"""Changes that a sync window holds: on real git and a real store, over restarts, until it lets them in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.controller.admin.versions import Versions
from reconciler.controller.mirror.verdict import Verdict, verdict
from reconciler.planning.safety import held_revision
from reconciler.resources.operation import Operation, operation_name
from reconciler.source.git.repository import OPERATIONS, ClusterRepo
from reconciler.source.operations import file_of, text_of
from reconciler.source.sources import DirectorySource, GitSource
from reconciler.state import Desired, WaitingFor
from reconciler.state.identity import ObjectKey
from tests.properties.test_operations import operation
from tests.source.conftest import AUTHOR

from .mirror.test_verdict import SEEN
from .test_desired_state import Controller

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()
EVENING = datetime(2026, 11, 25, 18, tzinfo=UTC).timestamp()
A, NEW = (ObjectKey("ModelDeployment", name) for name in ("a", "new"))


def manifest(kind_: str, name: str, /, **spec: Any) -> bytes:
    body = {"apiVersion": "reconciler/v1alpha1", "kind": kind_, "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump(body).encode()


def files(**replicas: int) -> dict[str, bytes | None]:
    """Deployments with so many replicas, in files of their names, and their Model."""
    made: dict[str, bytes | None] = {"tiny.yaml": manifest("Model", "tiny", source={"path": "tiny"})}
    for name, count in replicas.items():
        made[f"{name}.yaml"] = manifest("ModelDeployment", name, model="tiny", replicas=count)
    return made


def window(**spec: Any) -> dict[str, bytes | None]:
    office_hours = {"kind": "deny", "schedule": "0 8 * * 1-5", "duration": "10h", **spec}
    return {"window.yaml": manifest("SyncWindow", "office-hours", **office_hours)}


def replicas(desired: Desired) -> dict[str, int]:
    return {name: each.spec.replicas for name, each in sorted(desired.deployments.items())}


def operated(repo: ClusterRepo, said: Operation | None) -> None:
    """Write an operation; None undoes that of the whole cluster."""
    name = operation_name("suspend", "Cluster", "main") if said is None else said.metadata.name
    changes = {file_of(name): None if said is None else text_of(said)}
    repo.commit(repo.head(OPERATIONS), changes, "Operate", AUTHOR, OPERATIONS)


def overridden(repo: ClusterRepo, until: str) -> None:
    operated(repo, operation("override", "SyncWindow", "office-hours", reason="incident 12", until=until))


@pytest.fixture
def now() -> float:
    return NOON


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What is wanted, where no git takes its time."""
    (tmp_path / "manifests").mkdir()
    return tmp_path / "manifests"


@pytest.fixture
def watching(folder: Path) -> Iterator[Controller]:
    made = Controller(DirectorySource(folder), folder.parent / "store.db", now=NOON)
    yield made
    made.store.close()


def write(folder: Path, found: Mapping[str, bytes | None]) -> None:
    for name, text in found.items():
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(text)


async def test_a_change_waits_for_the_end_of_the_window_and_all_else_goes_on(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {**files(a=1, b=1), **window(deployments=["a", "new"])}, "one", AUTHOR)
    assert replicas(await controller.look()) == {"a": 1, "b": 1}, "what brings a window is not held by it"
    changed = {"tiny.yaml": manifest("Model", "tiny", source={"path": "other"})}
    second = repo.commit(first, {**files(a=2, b=2, new=1), **changed}, "two", AUTHOR)
    desired = await controller.look()
    assert (desired.revision, replicas(desired)) == (second, {"a": 1, "b": 2})
    assert desired.models["tiny"].spec.source.path == "tiny", "a serves its weights"
    assert desired.held_changes is not None
    held = {str(each.object): (each.windows, each.until) for each in desired.held_changes.changes}
    assert held == dict.fromkeys(
        ("model/tiny", "modeldeployment/a", "modeldeployment/new"), (("office-hours",), EVENING)
    )
    assert controller.desired_state.expiry() == EVENING
    controller.now = EVENING
    desired = await controller.look()
    assert (replicas(desired), desired.held_changes) == ({"a": 2, "b": 2, "new": 1}, None)
    assert controller.desired_state.expiry() is None
    told = [reason for reason in controller.reasons() if reason != "DeploymentChanged"]
    assert told == ["RevisionApplied", "RevisionApplied", "ChangesHeld", "RevisionApplied"]
    began = [str(each.object) for each in controller.events if each.reason == "DeploymentChanged"]
    assert began[0] == "modeldeployment/b", "a is told when its change comes in"
    assert "modeldeployment/a" in began[1:]


async def test_a_window_for_everything_holds_the_revision(folder: Path, watching: Controller) -> None:
    write(folder, {**files(a=1), **window()})
    first = (await watching.look()).revision
    write(folder, files(a=2, new=1))
    desired = await watching.look()
    assert (desired.revision, replicas(desired)) == (first, {"a": 1})
    await watching.look()
    assert watching.reasons() == ["RevisionApplied", "ChangesHeld"]
    assert watching.events[-1].message == (
        "modeldeployment/a, modeldeployment/new are held by sync window office-hours until 2026-11-25T18:00:00Z;"
        " to apply now: reconciler override office-hours --reason WHY"
    )
    waiting = held_revision(desired).waiting
    assert [(each.object, each.reason, each.until) for each in waiting] == [
        (A, WaitingFor.WINDOW, EVENING),
        (NEW, WaitingFor.WINDOW, EVENING),
    ]
    write(folder, {**files(a=1), "new.yaml": None})
    desired = await watching.look()
    assert (desired.revision, desired.held_changes) == (first, None), "it was taken back"


async def test_a_window_holds_its_own_removal(folder: Path, watching: Controller) -> None:
    write(folder, {**files(a=1, b=1), **window(deployments=["a"])})
    await watching.look()
    write(folder, {**files(a=2, b=2), "window.yaml": None})
    for _ in range(2):  # it is asked again at the next look
        assert replicas(await watching.look()) == {"a": 1, "b": 2}
    watching.now = EVENING
    desired = await watching.look()
    assert (replicas(desired), desired.others) == ({"a": 2, "b": 2}, {})


@pytest.mark.second_tier
async def test_an_override_lets_it_in_and_what_came_in_stays(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {**files(a=1), **window()}, "one", AUTHOR)
    await controller.look()
    second = repo.commit(first, files(a=2), "two", AUTHOR)
    assert replicas(await controller.look()) == {"a": 1}
    overridden(repo, "2026-11-25T13:00:00Z")
    assert replicas(await controller.look()) == {"a": 2}
    controller.now += 3600
    repo.commit(second, files(a=3), "three", AUTHOR)
    assert replicas(await controller.look()) == {"a": 2}, "the override has ended"


async def test_what_is_held_is_held_over_a_restart_and_told_once(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {**files(a=1, b=1), **window(deployments=["a"])}, "one", AUTHOR)
    await controller.look()
    second = repo.commit(first, files(a=2, b=2), "two", AUTHOR)
    before = await controller.look()
    told = len(controller.events)
    desired = await controller.restart(GitSource(repo))
    assert (desired.revision, replicas(desired)) == (second, {"a": 1, "b": 2})
    assert desired.held_changes == before.held_changes
    assert len(controller.events) == told
    controller.now = EVENING
    assert replicas(await controller.restart(GitSource(repo))) == {"a": 2, "b": 2}


async def test_what_is_held_is_held_when_the_store_is_lost(
    repo: ClusterRepo, controller: Controller, home: Path
) -> None:
    first = repo.commit(None, {**files(a=1, b=1), **window(deployments=["a", "new"])}, "one", AUTHOR)
    await controller.look()
    second = repo.commit(first, files(a=2, b=2, new=1), "two", AUTHOR)
    before = await controller.look()
    controller.path = home / "another.db"
    desired = await controller.restart(GitSource(repo))
    assert (desired.revision, replicas(desired)) == (second, {"a": 1, "b": 2})
    assert desired.held_changes == before.held_changes
    controller.now = EVENING
    assert replicas(await controller.look()) == {"a": 2, "b": 2, "new": 1}
    controller.path = home / "a third.db"
    controller.now = NOON
    assert replicas(await controller.restart(GitSource(repo))) == {"a": 2, "b": 2, "new": 1}, "it came in"


async def test_a_later_revision_does_not_bring_an_older_spec_back(folder: Path, watching: Controller) -> None:
    night = manifest(
        "SyncWindow", "night", kind="deny", schedule="0 20 * * *", duration="1h", deployments=["b"]
    )
    write(folder, {**files(a=1, b=1), **window(deployments=["a"]), "night.yaml": night})
    await watching.look()
    write(folder, files(a=2, b=2))
    assert replicas(await watching.look()) == {"a": 1, "b": 2}
    watching.now = EVENING + 2.5 * 3600
    write(folder, files(a=3, b=3))
    assert replicas(await watching.look()) == {"a": 3, "b": 2}, "b keeps the spec that it had last"


async def test_what_is_held_comes_in_also_while_a_newer_revision_is_held_for_its_removals(
    folder: Path, watching: Controller
) -> None:
    write(folder, {**files(a=1, b=1), **window(deployments=["a"])})
    await watching.look()
    write(folder, files(a=2, b=2))
    second = (await watching.look()).revision
    write(folder, {"a.yaml": None, "b.yaml": None})
    desired = await watching.look()
    assert desired.hold is not None
    assert replicas(desired) == {"a": 1, "b": 2}
    watching.now = EVENING
    desired = await watching.look()
    assert (desired.revision, replicas(desired)) == (second, {"a": 2, "b": 2})


@pytest.mark.second_tier
async def test_what_is_held_stays_out_while_the_cluster_is_suspended_also_when_the_window_ends(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {**files(a=1, b=1), **window(deployments=["a"])}, "one", AUTHOR)
    await controller.look()
    second = repo.commit(first, files(a=2, b=2), "two", AUTHOR)
    operated(repo, operation("suspend", "Cluster", "main", reason="freeze"))
    assert replicas(await controller.look()) == {"a": 1, "b": 1}
    operated(repo, None)
    assert replicas(await controller.look()) == {"a": 1, "b": 2}
    operated(repo, operation("suspend", "Cluster", "main", reason="freeze"))
    controller.now = EVENING
    for _ in range(2):
        desired = await controller.look()
        assert (desired.revision, replicas(desired)) == (second, {"a": 1, "b": 2})
        assert desired.suspended is not None
        assert desired.suspended.revision == second
    operated(repo, None)
    desired = await controller.look()
    assert (replicas(desired), desired.suspended) == ({"a": 2, "b": 2}, None)


async def test_a_reader_of_the_commits_is_told_that_one_is_held(folder: Path, watching: Controller) -> None:
    versions = Versions("origin")
    write(folder, {**files(a=1), **window()})
    before = versions.of_commits(await watching.look())
    write(folder, files(a=2))
    held = await watching.look()
    assert versions.of_commits(held) != before
    assert versions.of_commits(await watching.look()) == versions.of_commits(held)


async def test_a_watched_folder_has_windows_too(folder: Path, watching: Controller) -> None:
    write(folder, {**files(a=1, b=1), **window(deployments=["a"])})
    await watching.look()
    write(folder, files(a=2, b=2))
    assert replicas(await watching.look()) == {"a": 1, "b": 2}
    assert replicas(await watching.restart(DirectorySource(folder))) == {"a": 1, "b": 2}
    watching.now = EVENING
    assert replicas(await watching.look()) == {"a": 2, "b": 2}


async def test_the_status_of_a_commit_says_which_window_holds_it(folder: Path, watching: Controller) -> None:
    write(folder, {**files(a=1), **window()})
    await watching.look()
    write(folder, files(a=2))
    desired = await watching.look()
    assert SEEN.last is not None
    assert desired.held_changes is not None
    seen = desired.held_changes.revision
    standing = replace(SEEN, last=replace(SEEN.last, revision=seen))
    assert verdict(standing, desired, {}) == Verdict(
        seen, "pending", "a change is held by sync window office-hours until 2026-11-25T18:00:00Z"
    )
