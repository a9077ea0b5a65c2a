"""Changes that a sync window holds while the cluster, or an object, is suspended: nothing lets them in by accident."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.console.view.history import held
from reconciler.controller.admin.bodies import kept_out
from reconciler.controller.admin.history import History
from reconciler.resources.operation import Operation
from reconciler.source.git.repository import ClusterRepo
from reconciler.state import Desired
from reconciler.state.operations import Operations
from tests.console.snapshots import recorded
from tests.properties.test_operations import operation
from tests.source.conftest import AUTHOR

from .test_desired_state import Controller
from .test_operating import in_console, parts
from .test_sync_windows import EVENING, NOON, files, manifest, operated, replicas, window

pytestmark = pytest.mark.processes


@pytest.fixture
def now() -> float:
    return NOON


async def held_in_part(repo: ClusterRepo, controller: Controller) -> str:
    """A second revision is in force, but for the change of a; return it."""
    first = repo.commit(None, {**files(a=1, b=1), **window(deployments=["a", "new"])}, "one", AUTHOR)
    await controller.look()
    second = repo.commit(first, files(a=2, b=2, new=1), "two", AUTHOR)
    assert replicas(await controller.look()) == {"a": 1, "b": 2}
    assert repo.in_force() == second
    return second


async def after(controller: Controller, *operations: Operation) -> Desired:
    """What would be in force with these operations instead of the present ones."""
    state, laid = controller.desired_state, Operations("pushed", operations)
    return state.after(await state.judge_again(laid), laid)


async def states(controller: Controller) -> list[str]:
    """What has become of each commit to main, newest first."""
    items = (await History(parts(controller)).commits(10))["items"]
    return [each["state"] for each in items if each["branch"] == "main"]


async def test_who_suspends_a_held_object_in_the_console_keeps_what_is_in_force_of_it(
    repo: ClusterRepo, controller: Controller
) -> None:
    await held_in_part(repo, controller)
    await in_console(controller, "suspend", "a")
    assert replicas(await controller.look()) == {"a": 1, "b": 2}
    controller.now = EVENING
    assert replicas(await controller.look()) == {"a": 1, "b": 2, "new": 1}
    await in_console(controller, "resume", "a")
    assert replicas(await controller.look()) == {"a": 2, "b": 2, "new": 1}


async def test_what_is_held_is_told_also_while_a_newer_revision_waits_for_the_cluster_to_be_resumed(
    repo: ClusterRepo, controller: Controller
) -> None:
    second = await held_in_part(repo, controller)
    waiting = controller.desired_state.desired.held_changes
    operated(repo, operation("suspend", "Cluster", "main", reason="freeze"))
    third = repo.commit(second, files(a=3, b=3, new=1), "three", AUTHOR)
    for desired in (await controller.look(), await controller.restart()):
        assert await states(controller) == ["Suspended", "InForce", "Earlier"]
        assert desired.suspended is not None
        assert (desired.suspended.revision, replicas(desired)) == (third, {"a": 1, "b": 2})
        assert desired.held_changes == waiting
    controller.now = EVENING
    desired = await controller.look()
    assert (replicas(desired), desired.held_changes) == ({"a": 1, "b": 2}, None)


async def test_a_push_of_operations_is_judged_by_what_a_suspension_keeps_out(
    repo: ClusterRepo, controller: Controller
) -> None:
    await held_in_part(repo, controller)
    suspension = operation("suspend", "Cluster", "main", reason="freeze")
    operated(repo, suspension)
    controller.now = EVENING
    await controller.look()
    cordon = operation("cordon", "Node", "x")
    still = await after(controller, suspension, cordon)
    assert replicas(still) == {"a": 1, "b": 2}
    resumed = await after(controller, cordon)
    assert replicas(resumed) == {"a": 2, "b": 2, "new": 1}
    operated(repo, None)
    assert replicas(await controller.look()) == {"a": 2, "b": 2, "new": 1}
    assert replicas(await after(controller, suspension)) == {"a": 2, "b": 2, "new": 1}


async def test_a_restart_tells_nothing_again_where_the_cluster_is_suspended_and_one_of_two_windows_has_ended(
    repo: ClusterRepo, controller: Controller
) -> None:
    night = manifest(
        "SyncWindow", "night", kind="deny", schedule="0 8 * * *", duration="20h", deployments=["b"]
    )
    windows = {**window(deployments=["a"]), "night.yaml": night}
    first = repo.commit(None, {**files(a=1, b=1, c=1), **windows}, "one", AUTHOR)
    await controller.look()
    repo.commit(first, files(a=2, b=2, c=2), "two", AUTHOR)
    await controller.look()
    operated(repo, operation("suspend", "Cluster", "main", reason="freeze"))
    await controller.look()
    controller.now = EVENING
    desired = await controller.look()
    assert desired.suspended is not None
    assert desired.suspended.text.startswith(
        f"changes of revision {desired.revision[:10]} that a sync window has held wait: Ada has suspended the cluster: freeze;"
    )
    assert desired.held_changes is not None
    four = recorded("four-macs")
    shown = replace(four, status={**four.status, **kept_out(desired), "revision": desired.revision})
    assert [each.title for each in held(shown)] == [
        "Changes wait: the cluster is suspended",
        "Changes wait for sync window night",
    ]
    assert controller.reasons()[-2:] == ["RevisionSuspended", "ChangesHeld"]
    told = len(controller.events)
    for _ in range(2):
        assert await controller.restart() == desired
    assert controller.events[told:] == []
