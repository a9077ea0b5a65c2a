"""What is in force: judged revision after revision, on real git and a real store, over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.controller.desired_state import DesiredState
from reconciler.controller.operations_layer import PROBLEMS_SHOWN_MAX
from reconciler.errors import Refused
from reconciler.source.git import hooks
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.sources import DirectorySource, GitSource, Source
from reconciler.state import Desired, ObjectKey
from reconciler.state.reports.status import Event
from reconciler.store import Store
from tests.source.conftest import AUTHOR, NODE, Person, clone

pytestmark = pytest.mark.processes


def node(name: str) -> str:
    return NODE.replace("name: a", f"name: {name}")


def nodes(*names: str) -> bytes:
    return "---\n".join(node(name) for name in names).encode() or b"# nothing\n"


@dataclass
class Controller:
    """The part of a controller that knows what is wanted; it can be restarted."""

    source: Source
    path: Path
    now: float = 100.0
    events: list[Event] = field(default_factory=list)
    serving: set[ObjectKey] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.store = Store(self.path)
        self.desired_state = DesiredState(
            self.source, self.store, lambda: self.now, self._note, lambda keys: self.serving & {*keys}
        )

    def _note(self, event: Event) -> None:
        self.events.append(event)
        self.store.add_events((event,))

    async def look(self) -> Desired:
        await self.desired_state.refresh(None)
        await self.desired_state.record_in_force()
        return self.desired_state.desired

    async def restart(self, source: Source | None = None) -> Desired:
        self.store.close()
        self.source = source or self.source
        self.__post_init__()
        return await self.look()

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]


def past_the_hook(repo: ClusterRepo, person: Person) -> str:
    """What the person has comes to main as if no hook were there: fetched into the repository."""
    run_git((f"--git-dir={repo.path}", "fetch", "--quiet", "--force", str(person.clone), "main:main"))
    head = repo.head()
    assert head is not None
    return head


async def test_a_revision_that_removes_much_is_held_and_its_predecessor_stays(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c", "d", "e")}, "five", AUTHOR)
    before = await controller.look()
    second = repo.commit(first, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    desired = await controller.look()
    assert desired.revision == first
    assert desired.nodes == before.nodes
    assert desired.hold is not None
    assert desired.hold.revision == second
    assert [str(key) for key in desired.hold.removes] == ["node/d", "node/e"]
    assert controller.store.objects.leaving() == {}
    await controller.look()
    assert controller.reasons() == ["RevisionApplied", "RevisionHeld"]
    assert f"reconciler approve {second[:10]}" in controller.events[-1].message
    assert f"a revert of the commits {first[:10]}..{second[:10]}" in controller.events[-1].message


async def test_a_held_revision_comes_into_force_when_it_is_approved(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    await controller.look()
    second = repo.commit(first, {"n.yaml": None}, "none", AUTHOR)
    await controller.look()
    controller.now = 200.0
    assert controller.desired_state.approve(second[:6], "ada") == {
        "revision": second,
        "removes": ["node/a", "node/b", "node/c"],
        "runs": [],
        "again": False,
    }
    desired = await controller.look()
    assert (desired.revision, desired.hold, desired.objects()) == (second, None, {})
    leaving = controller.store.objects.leaving()
    assert {str(key): going.since for key, going in leaving.items()} == {
        "node/a": 200.0,
        "node/b": 200.0,
        "node/c": 200.0,
    }
    assert controller.desired_state.approve(second, "bob")["again"] is True
    assert controller.reasons() == ["RevisionApplied", "RevisionHeld", "RevisionApproved", "RevisionApplied"]
    assert controller.events[2].message == f"{second[:10]} was approved by ada"


@pytest.mark.parametrize("meanwhile", ["", "restarted", "store lost"])
@pytest.mark.parametrize("before", ["", "clusters/a"])
async def test_another_folder_of_the_same_commit_is_judged_as_another_revision(
    before: str, meanwhile: str, repo: ClusterRepo, controller: Controller
) -> None:
    ours = f"{before}/n.yaml".lstrip("/")
    repo.commit(None, {ours: nodes("a", "b"), "clusters/b/m.yaml": nodes("c")}, "both", AUTHOR)
    repo.configure("", before)
    kept = await controller.look()
    repo.configure("", "clusters/b")
    if meanwhile == "store lost":
        controller.store.close()
        controller.path.unlink()
    desired = await (controller.restart(GitSource(repo)) if meanwhile else controller.look())
    assert desired.objects() == kept.objects()
    assert desired.hold is not None
    controller.desired_state.approve(desired.hold.revision, "ada")
    assert set(map(str, (await controller.look()).objects())) == {"node/c"}
    assert set(map(str, (await controller.restart(GitSource(repo))).objects())) == {"node/c"}
    assert controller.desired_state.desired.hold is None


@pytest.mark.parametrize("newest", ["held", "wrong"])
async def test_what_was_in_force_stays_so_when_the_store_is_lost(
    newest: str, repo: ClusterRepo, person: Person, home: Path
) -> None:
    controller = Controller(GitSource(repo), home / "store.db")
    person.commits(nodes("a", "b", "c").decode())
    person.pushes()
    first = (await controller.look()).revision
    person.commits(nodes("a").decode() if newest == "held" else "kind: Nod\n")
    past_the_hook(repo, person)
    before = await controller.look()
    assert before.hold or before.rejection
    controller.path = home / "another.db"
    desired = await controller.restart()
    assert (desired.revision, desired.nodes) == (first, before.nodes)
    assert (desired.hold, desired.rejection) == (before.hold, before.rejection)
    controller.store.close()


async def test_a_folder_that_was_emptied_with_approval_is_held_when_it_is_empty_again(home: Path) -> None:
    folder = home / "manifests"
    folder.mkdir()
    controller = Controller(DirectorySource(folder), home / "store.db")
    manifests = folder / "n.yaml"
    manifests.write_bytes(nodes("a", "b", "c"))
    await controller.look()
    manifests.unlink()
    held = (await controller.look()).hold
    assert held is not None
    controller.desired_state.approve(held.revision, "ada")
    assert (await controller.look()).objects() == {}
    manifests.write_bytes(nodes("a", "b", "c"))
    assert len((await controller.look()).nodes) == 3
    manifests.unlink()
    desired = await controller.look()
    assert desired.hold == held
    assert len(desired.nodes) == 3
    controller.store.close()


async def test_what_is_not_held_cannot_be_approved_and_what_is_held_is_named(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    await controller.look()
    with pytest.raises(Refused, match="no revision is held"):
        controller.desired_state.approve(first, "ada")
    second = repo.commit(first, {"n.yaml": nodes()}, "none", AUTHOR)
    await controller.look()
    for wrong in ("", second[:3], "0000000000", f"{second}0"):
        with pytest.raises(Refused, match=f"reconciler approve {second[:10]}"):
            controller.desired_state.approve(wrong, "ada")
    assert (await controller.look()).revision == first


async def test_an_approval_covers_no_later_revision(repo: ClusterRepo, controller: Controller) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c", "d", "e")}, "five", AUTHOR)
    await controller.look()
    second = repo.commit(first, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    await controller.look()
    controller.desired_state.approve(second, "ada")
    third = repo.commit(second, {"n.yaml": nodes("a")}, "one", AUTHOR)
    desired = await controller.look()
    assert desired.revision == first
    assert desired.hold is not None
    assert (desired.hold.revision, len(desired.hold.removes)) == (third, 4)


async def test_a_revision_that_brings_the_objects_back_releases_the_hold(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    await controller.look()
    second = repo.commit(first, {"n.yaml": nodes("a")}, "one", AUTHOR)
    await controller.look()
    third = repo.commit(second, {"n.yaml": nodes("a", "b", "c")}, "three again", AUTHOR)
    desired = await controller.look()
    assert (desired.revision, desired.hold) == (third, None)
    assert set(desired.generations.values()) == {1}


async def test_an_object_that_moves_to_another_file_neither_leaves_nor_changes(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    before = await controller.look()
    moved: dict[str, bytes | None] = {"n.yaml": None, "x/a.yaml": nodes("a"), "y.yml": nodes("c", "b")}
    second = repo.commit(first, moved, "move", AUTHOR)
    after = await controller.look()
    assert after.revision == second
    assert (after.nodes, after.generations, after.created) == (
        before.nodes,
        before.generations,
        before.created,
    )
    assert controller.store.objects.leaving() == {}


async def test_a_restart_while_the_newest_revision_is_held_prunes_nothing(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    before = await controller.look()
    second = repo.commit(first, {"n.yaml": nodes()}, "none", AUTHOR)
    await controller.look()
    desired = await controller.restart()
    assert (desired.revision, desired.nodes, desired.generations) == (first, before.nodes, before.generations)
    assert desired.hold is not None
    assert controller.reasons() == ["RevisionApplied", "RevisionHeld"], "a restart is no news"
    controller.desired_state.approve(second, "ada")
    assert (await controller.restart()).revision == second


async def test_a_restart_while_the_newest_revision_is_wrong_keeps_the_last_good_one(
    repo: ClusterRepo, person: Person, controller: Controller
) -> None:
    person.commits(nodes("a", "b", "c").decode())
    person.pushes()
    before = await controller.look()
    person.commits("kind: Nod\n", "b.yaml")
    past_the_hook(repo, person)
    for desired in (await controller.look(), await controller.restart()):
        assert (desired.revision, desired.nodes) == (before.revision, before.nodes)
        assert desired.rejection is not None
        assert 'b.yaml:1:7: kind: unknown kind "Nod"' in desired.rejection.text
    assert controller.reasons() == ["RevisionApplied", "RevisionRejected"]
    person.commits(nodes("d").decode(), "b.yaml")
    good = past_the_hook(repo, person)
    desired = await controller.look()
    assert (desired.revision, desired.rejection, len(desired.nodes)) == (good, None, 4)


async def test_all_that_is_wrong_is_one_line_of_a_table_and_not_without_end(
    repo: ClusterRepo, person: Person, controller: Controller
) -> None:
    person.commits("---\n".join(["kind: Nod\napiVersion: reconciler/v1alpha1\n"] * 50))
    past_the_hook(repo, person)
    rejection = (await controller.look()).rejection
    assert rejection is not None
    assert len(rejection.text.split("\n")) == PROBLEMS_SHOWN_MAX + 1
    assert rejection.text.endswith("\nand 30 more problems; list all with: reconciler validate -f DIR")
    (event,) = controller.events
    assert "\n" not in event.message
    assert event.message.startswith(
        'a.yaml:1:7: kind: unknown kind "Nod", did you mean "Node"?; a.yaml:4:7: '
    )


async def test_a_wrong_revision_replaces_a_held_one_which_can_no_longer_be_approved(
    repo: ClusterRepo, person: Person, controller: Controller
) -> None:
    person.commits(nodes("a", "b", "c").decode())
    person.pushes()
    await controller.look()
    person.commits("# nothing\n")
    person.pushes()
    held = (await controller.look()).hold
    assert held is not None
    person.commits("kind: Nod\n")
    past_the_hook(repo, person)
    assert (await controller.look()).hold is None
    with pytest.raises(Refused, match="no revision is held"):
        controller.desired_state.approve(held.revision, "ada")


async def test_a_branch_that_was_deleted_is_an_empty_revision_and_held(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a")}, "one", AUTHOR)
    await controller.look()
    run_git((f"--git-dir={repo.path}", "update-ref", "-d", "refs/heads/main"))
    desired = await controller.look()
    assert desired.revision == first
    assert desired.hold is not None
    assert desired.hold.command == "reconciler approve empty"
    controller.desired_state.approve("empty", "ada")
    assert (await controller.look()).objects() == {}


async def test_the_first_revision_of_a_cluster_is_never_held(
    repo: ClusterRepo, controller: Controller
) -> None:
    assert (await controller.look()).revision == "empty"
    first = repo.commit(None, {"n.yaml": nodes("a")}, "one", AUTHOR)
    desired = await controller.look()
    assert (desired.revision, desired.hold) == (first, None)


async def test_the_repository_notes_what_is_in_force(repo: ClusterRepo, controller: Controller) -> None:
    await controller.look()
    assert repo.in_force() is None
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    await controller.look()
    assert repo.in_force() == first
    second = repo.commit(first, {"n.yaml": nodes("a")}, "one", AUTHOR)
    await controller.look()
    assert repo.in_force() == first
    controller.desired_state.approve(second, "ada")
    await controller.look()
    assert repo.in_force() == second


# --- a watched folder ------------------------------------------------------------------------------


async def test_a_folder_that_is_emptied_is_held_and_stays_in_force_over_a_restart(
    controller: Controller, home: Path
) -> None:
    folder = home / "manifests"
    folder.mkdir()
    (folder / "n.yaml").write_bytes(nodes("a", "b", "c"))
    before = await controller.restart(DirectorySource(folder))
    (folder / "n.yaml").unlink()
    for desired in (await controller.look(), await controller.restart()):
        assert (desired.revision, desired.nodes) == (before.revision, before.nodes)
        assert desired.hold is not None
    folder.rmdir()
    for desired in (await controller.look(), await controller.restart()):
        assert desired.nodes == before.nodes
        assert desired.rejection is not None
        assert "does not exist" in desired.rejection.text
    folder.mkdir()
    held = (await controller.look()).hold
    assert held is not None
    controller.desired_state.approve(held.revision, "ada")
    assert (await controller.look()).nodes == {}


# --- histories that are no fast-forward -----------------------------------------------------------


async def test_whatever_main_was_forced_to_is_judged_like_any_other_revision(
    repo: ClusterRepo, person: Person, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b", "c")}, "three", AUTHOR)
    second = repo.commit(first, {"n.yaml": nodes("a", "b", "c", "d")}, "four", AUTHOR)
    assert len((await controller.look()).nodes) == 4
    run_git((f"--git-dir={repo.path}", "update-ref", "refs/heads/main", first))
    desired = await controller.look()
    assert (desired.revision, len(desired.nodes)) == (first, 3)
    person.git("checkout", "--quiet", "--orphan", "other")
    person.git("branch", "--delete", "--force", "main")
    person.git("checkout", "--quiet", "-b", "main")
    person.commits(node("x"))
    unrelated = past_the_hook(repo, person)
    desired = await controller.look()
    assert desired.revision == first
    assert desired.hold is not None
    assert desired.hold.revision == unrelated
    run_git((f"--git-dir={repo.path}", "update-ref", "refs/heads/main", second))
    assert (await controller.look()).revision == second


@pytest.mark.second_tier
async def test_of_two_pushes_at_once_both_are_in_force_in_the_end(
    repo: ClusterRepo, person: Person, controller: Controller
) -> None:
    person.commits(node("a"))
    person.pushes()
    people = [clone(repo, name) for name in ("bob", "eve")]
    for other in people:
        other.commits(node(other.clone.name), f"{other.clone.name}.yaml")

    async def lands(other: Person) -> None:
        while (await asyncio.to_thread(other.pushes))[0]:
            assert (await controller.look()).rejection is None
            assert other.git("pull", "--quiet", "--rebase", "origin", "main")[0] == 0

    async with asyncio.timeout(60):
        await asyncio.gather(*map(lands, people))
    desired = await controller.look()
    assert (desired.revision, set(desired.nodes)) == (repo.head(), {"a", "bob", "eve"})


# --- a damaged repository -------------------------------------------------------------------------


def loose(repo: ClusterRepo, name: str) -> Path:
    sha = run_git((f"--git-dir={repo.path}", "rev-parse", name)).decode().strip()
    path = repo.path / "objects" / sha[:2] / sha[2:]
    path.chmod(0o644)
    return path


DAMAGES: dict[str, Callable[[ClusterRepo], object]] = {
    "the commit is missing": lambda repo: loose(repo, "main").unlink(),
    "the commit is empty, as after a power failure": lambda repo: loose(repo, "main").write_bytes(b""),
    "the tree is missing": lambda repo: loose(repo, "main^{tree}").unlink(),
    "a file is missing": lambda repo: loose(repo, "main:n.yaml").unlink(),
    "a file is garbage": lambda repo: loose(repo, "main:n.yaml").write_bytes(b"garbage"),
    "the branch is empty": lambda repo: (repo.path / "refs/heads/main").write_bytes(b""),
    "the branch is garbage": lambda repo: (repo.path / "refs/heads/main").write_bytes(b"\0" * 41),
    "HEAD is missing": lambda repo: (repo.path / "HEAD").unlink(),
    "everything is missing": lambda repo: repo.path.rename(repo.path.with_name("elsewhere")),
}


@pytest.mark.second_tier
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_repository_is_said_and_the_last_good_revision_stays(
    damage: str, repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"n.yaml": nodes("a", "b")}, "two", AUTHOR)
    before = await controller.look()
    repo.commit(first, {"n.yaml": nodes("a", "c")}, "other", AUTHOR)
    DAMAGES[damage](repo)
    for desired in (await controller.look(), await controller.restart(GitSource(repo))):
        assert (desired.revision, desired.nodes, desired.hold) == (first, before.nodes, None)
        assert desired.rejection is not None
        assert "damaged" in desired.rejection.text
        assert "push to that from a clone" in desired.rejection.text
    assert controller.reasons() == ["RevisionApplied", "RevisionRejected"]


async def test_a_damaged_repository_is_replaced_by_a_new_one_that_is_pushed_to(
    repo: ClusterRepo, person: Person, controller: Controller
) -> None:
    person.commits(nodes("a", "b").decode())
    person.pushes()
    first = await controller.look()
    DAMAGES["the branch is empty"](repo)
    assert (await controller.look()).rejection is not None
    repo.path.rename(repo.path.with_name("damaged"))
    ClusterRepo.create(repo.path, hooks.command())
    assert (await controller.look()).hold is not None, "an empty repository removes everything"
    assert person.pushes()[0] == 0
    desired = await controller.look()
    assert (desired.revision, desired.nodes, desired.hold) == (first.revision, first.nodes, None)


SERVED = """\
apiVersion: reconciler/v1alpha1
kind: Model
metadata: {name: tiny}
spec: {source: {path: tiny}}
---
apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata: {name: tiny}
spec: {model: tiny, serving: {maxBatch: 16}}
"""


async def test_of_a_changed_deployment_it_is_told_which_fields_once(
    repo: ClusterRepo, controller: Controller
) -> None:
    first = repo.commit(None, {"tiny.yaml": SERVED.encode()}, "serve", AUTHOR)
    await controller.look()
    changed = SERVED.replace("maxBatch: 16", "maxBatch: 16, aliases: [gpt-4o]")
    second = repo.commit(first, {"tiny.yaml": changed.encode()}, "name", AUTHOR)
    for _ in range(2):
        await controller.look()
    told = [event for event in controller.events if event.reason == "DeploymentChanged"]
    assert [(str(each.object), each.message) for each in told] == [
        ("modeldeployment/tiny", "in place: serving.aliases")
    ]
    await controller.restart()
    repo.commit(second, {"other.yaml": nodes("a")}, "add a node", AUTHOR)
    await controller.look()
    assert controller.reasons().count("DeploymentChanged") == 1
