"""Operations beside the manifests: on real git and a real store, by anybody's push, over restarts."""

from __future__ import annotations

import pytest

from reconciler.errors import Refused
from reconciler.resources.operation import Operation, written_moment
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import MIRROR, OPERATIONS, ClusterRepo
from reconciler.source.operations import file_of, text_of
from reconciler.state import Desired
from tests.properties.test_operations import operation
from tests.source.conftest import AUTHOR, Person

from .test_desired_state import Controller, nodes, past_the_hook

pytestmark = pytest.mark.processes

MODEL = (
    b"---\napiVersion: reconciler/v1alpha1\nkind: Model\nmetadata: {name: tiny}\n"
    b"spec: {source: {path: tiny}}\n"
)
TINY = (
    b"apiVersion: reconciler/v1alpha1\nkind: ModelDeployment\nmetadata: {name: tiny}\nspec: {model: tiny}\n"
)


@pytest.fixture
def now() -> float:
    return 1_000_000.0


def commits(repo: ClusterRepo, *said: Operation, undo: tuple[str, ...] = ()) -> str:
    """Write operations, and undo others by their names, in one commit."""
    changes: dict[str, bytes | None] = {file_of(each.metadata.name): text_of(each) for each in said}
    return repo.commit(
        repo.head(OPERATIONS), changes | dict.fromkeys(map(file_of, undo)), "by hand", AUTHOR, OPERATIONS
    )


def unschedulable(desired: Desired) -> list[str]:
    return [name for name, node in desired.nodes.items() if node.spec.unschedulable]


def revert(repo: ClusterRepo, person: Person) -> None:
    """Revert the newest operation with git alone, as somebody with a clone does."""
    person.git("fetch", "--quiet", "origin")
    person.git("checkout", "--quiet", "-B", "operations", "origin/operations")
    status, output = person.git("revert", "--no-edit", "HEAD")
    assert status == 0, output
    status, lines = person.pushes("origin", "operations")
    assert status == 0, lines


async def test_an_operation_is_in_force_until_its_commit_is_reverted_and_main_stays(
    repo: ClusterRepo, controller: Controller, person: Person
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b")}, "two", AUTHOR)
    before = await controller.look()
    commits(repo, operation("cordon", "Node", "a", reason="loud"))
    desired = await controller.look()
    assert (unschedulable(desired), desired.revision, repo.head()) == (["a"], first, first)
    assert [str(key) for key, found in desired.objects().items() if found != before.objects()[key]] == [
        "node/a"
    ]
    revert(repo, person)
    after = await controller.look()
    assert (after.objects(), after.effects) == (before.objects(), ())
    assert controller.reasons() == ["RevisionApplied", "OperationInForce", "OperationUndone"]
    assert [event.message for event in controller.events[1:]] == [
        "cordon by Ada: loud",
        "cordon by Ada was undone",
    ]


async def test_what_a_mirror_brings_and_what_people_do_meet_no_conflict(
    repo: ClusterRepo, controller: Controller, person: Person
) -> None:
    person.commits(nodes("a", "b").decode() + "---\n" + TINY.decode())
    past_the_hook(repo, person)
    run_git((f"--git-dir={repo.path}", "config", MIRROR, "https://example.org/hub.git"))
    commits(repo, operation("cordon", "Node", "a"))
    commits(
        repo, operation("stop", "Cluster", "main"), operation("scale", "ModelDeployment", "tiny", replicas=3)
    )
    person.commits(nodes("c").decode(), "c.yaml")
    fetched = past_the_hook(repo, person)
    desired = await controller.look()
    assert desired.revision == fetched
    assert unschedulable(desired) == ["a", "b", "c"], (
        "one that came while everything is stopped is stopped too"
    )
    assert desired.deployments["tiny"].spec.replicas == 3  # type: ignore[index]
    with pytest.raises(Refused, match="the truth is at"):
        repo.commit(fetched, {"d.yaml": b"# x"}, "a wish", AUTHOR)
    commits(repo, undo=("stop.cluster.main", "scale.modeldeployment.tiny"))
    desired = await controller.look()
    assert (unschedulable(desired), desired.deployments["tiny"].spec.replicas) == (["a"], 1)  # type: ignore[index]


async def test_an_operation_ends_by_itself(repo: ClusterRepo, controller: Controller) -> None:
    repo.commit(None, {"n.yaml": nodes("a")}, "one", AUTHOR)
    commits(repo, operation("cordon", "Node", "a", until=written_moment(1_000_060.0)))
    assert unschedulable(await controller.look()) == ["a"]
    assert controller.desired_state.expiry() == 1_000_060.0
    controller.now = 1_000_060.0
    desired = await controller.look()
    assert (unschedulable(desired), controller.desired_state.expiry()) == ([], None)
    assert [effect.standing.value for effect in desired.effects] == ["Expired"]
    assert controller.reasons() == ["RevisionApplied", "OperationExpired"]
    assert unschedulable(await controller.restart()) == []


async def test_nonsense_that_was_forced_in_changes_nothing_and_is_said_once(
    repo: ClusterRepo, controller: Controller, person: Person
) -> None:
    repo.commit(None, {"n.yaml": nodes("a")}, "one", AUTHOR)
    good = commits(repo, operation("cordon", "Node", "a"))
    await controller.look()
    person.git("checkout", "--quiet", "--orphan", "nonsense")
    person.commits("kind: Operation\napiVersion: reconciler/v1alpha1\nmetadata: {name: x}\nspec: 7\n")
    status, lines = person.pushes("--force", "origin", "HEAD:operations")
    assert status == 1
    assert lines[-1] == "reconciler: operations stays as it was"
    run_git((f"--git-dir={repo.path}", "fetch", "-q", "--force", str(person.clone), "nonsense:operations"))
    for desired in (await controller.look(), await controller.look(), await controller.restart()):
        assert unschedulable(desired) == ["a"]
        assert desired.operations == good
        assert desired.operations_rejection is not None
        assert "a.yaml:" in desired.operations_rejection.text
    assert controller.reasons().count("OperationsRejected") == 2, "once by each of two controllers"
    run_git((f"--git-dir={repo.path}", "update-ref", "-d", OPERATIONS))
    desired = await controller.look()
    assert unschedulable(desired) == ["a"]
    assert desired.operations_rejection is not None
    assert "the branch operations is gone" in desired.operations_rejection.text
    run_git((f"--git-dir={repo.path}", "update-ref", OPERATIONS, good))
    assert (await controller.look()).operations_rejection is None


async def test_operations_go_on_while_main_is_wrong_over_a_restart_too(
    repo: ClusterRepo, controller: Controller, person: Person
) -> None:
    person.commits(nodes("a", "b").decode())
    first = past_the_hook(repo, person)
    await controller.look()
    person.commits("kind: Nod\n", "wrong.yaml")
    past_the_hook(repo, person)
    commits(repo, operation("cordon", "Node", "a"))
    for desired in (await controller.look(), await controller.restart()):
        assert (desired.revision, unschedulable(desired)) == (first, ["a"])
        assert desired.rejection is not None
    commits(repo, undo=("cordon.node.a",))
    assert unschedulable(await controller.look()) == []


async def test_new_revisions_wait_while_the_cluster_is_suspended(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a")}, "one", AUTHOR)
    await controller.look()
    commits(repo, operation("suspend", "Cluster", "main", reason="freeze", until=written_moment(1_000_060.0)))
    second = repo.commit(first, {"n.yaml": nodes("a", "b")}, "two", AUTHOR)
    for desired in (await controller.look(), await controller.restart()):
        assert (desired.revision, list(desired.nodes)) == (first, ["a"])
        assert desired.suspended is not None
        assert desired.suspended.revision == second
        assert "Ada has suspended the cluster until 1970-01-12T13:47:40Z: freeze" in desired.suspended.text
    controller.now = 1_000_060.0
    desired = await controller.look()
    assert (desired.revision, desired.suspended) == (second, None)
    assert controller.reasons().count("RevisionSuspended") == 1


async def test_a_suspended_deployment_keeps_its_manifest_even_if_main_removes_it(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"t.yaml": TINY, "n.yaml": nodes("a") + MODEL}, "one", AUTHOR)
    before = await controller.look()
    manifest = before.deployments["tiny"].model_dump(mode="json", by_alias=True, exclude_unset=True)  # type: ignore[index]
    commits(repo, operation("suspend", "ModelDeployment", "tiny", manifest=manifest))
    changed = repo.commit(
        first, {"t.yaml": TINY.replace(b"model: tiny", b"model: tiny, replicas: 5")}, "more", AUTHOR
    )
    assert (await controller.look()).deployments == before.deployments
    repo.commit(changed, {"t.yaml": None}, "none", AUTHOR)
    desired = await controller.look()
    assert (desired.deployments, desired.hold) == (before.deployments, None)
    commits(repo, undo=("suspend.modeldeployment.tiny",))
    assert (await controller.look()).deployments == {}


async def test_an_approval_lets_in_the_held_revision_over_what_was_in_force_and_no_other(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    await controller.look()
    second = repo.commit(first, {"n.yaml": nodes()}, "none", AUTHOR)
    assert (await controller.look()).hold is not None
    commits(repo, operation("approve", "Revision", second, over=second))
    assert (await controller.look()).hold is not None, (
        "it speaks of what is missing compared with another revision"
    )
    commits(repo, operation("approve", "Revision", second, over=first))
    assert (await controller.look()).revision == second


async def test_an_operation_without_its_target_is_said_once_and_harmless(
    repo: ClusterRepo, controller: Controller
) -> None:
    repo.commit(None, {"n.yaml": nodes("a")}, "one", AUTHOR)
    before = await controller.look()
    commits(repo, operation("cordon", "Node", "gone"))
    for _ in range(2):
        desired = await controller.look()
    assert desired.objects() == before.objects()
    assert controller.reasons() == ["RevisionApplied", "OperationWithoutTarget"]
    assert controller.events[-1].message.endswith("undo it with: reconciler undo cordon.node.gone")
