"""The loop looks after the cluster repository: locks, hooks, and what a failing disk has done to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.controller.repository_care import EXAMINE_SECONDS, RepositoryCare
from reconciler.doctor import examine_repository
from reconciler.errors import Invalid
from reconciler.source.git import hooks
from reconciler.source.git.layout import damage
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import OPERATIONS, REF, ClusterRepo
from reconciler.source.sources import GitSource
from reconciler.state.reports.status import Event
from tests.source.conftest import AUTHOR, NODE, Person

from .test_desired_state import Controller

pytestmark = pytest.mark.processes


@dataclass
class Looks:
    """What looks after a repository, with what it has told."""

    repo: ClusterRepo
    now: float = 1000.0
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.care = RepositoryCare(GitSource(self.repo), lambda: self.now, self.events.append)

    async def look(self) -> list[str]:
        """The reasons of what is told at the next examination."""
        self.now += EXAMINE_SECONDS
        told = len(self.events)
        await self.care.look()
        return [event.reason for event in self.events[told:]]


@pytest.fixture
def looks(repo: ClusterRepo) -> Looks:
    return Looks(repo)


async def test_a_lock_that_kept_out_every_push_is_removed_and_reported_once(looks: Looks) -> None:
    lock = looks.repo.path / "refs" / "heads" / "main.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, (0, 0))
    assert (await looks.look(), await looks.look()) == (["LeftoverRemoved"], [])
    assert not lock.exists()
    assert "removed refs/heads/main.lock from git " in looks.events[0].message


# --- hooks ------------------------------------------------------------------------------------------


def _config(*arguments: str) -> Callable[[ClusterRepo], object]:
    return lambda repo: run_git((f"--git-dir={repo.path}", "config", *arguments))


def _hook(name: str, act: Callable[[Path], object]) -> Callable[[ClusterRepo], object]:
    return lambda repo: act(repo.path / "hooks" / name)


def _silence(repo: ClusterRepo) -> None:
    for name in ("pre-receive", "post-receive"):
        (repo.path / "hooks" / name).chmod(0o600)


SILENCED: dict[str, Callable[[ClusterRepo], object]] = {
    "not executable": _hook("pre-receive", lambda hook: hook.chmod(0o644)),
    "nothing is executable": _silence,
    "gone": _hook("pre-receive", Path.unlink),
    "the folder is gone": _hook("", shutil.rmtree),
    "another one": _hook("pre-receive", lambda hook: hook.write_text("#!/bin/sh\nexit 0\n")),
    "what it runs is gone": _hook(hooks.CLIENT, Path.unlink),
    "what it runs is empty": _hook(hooks.CLIENT, lambda client: client.write_text("")),
    "another folder": _config("core.hooksPath", "/nowhere"),
    "one folder more": _config("--add", "core.hooksPath", "/nowhere"),
    "no options of a push": _config("receive.advertisePushOptions", "false"),
}


@pytest.mark.second_tier
@pytest.mark.parametrize("silence", SILENCED.values(), ids=SILENCED)
async def test_a_hook_that_git_would_leave_out_is_set_right_and_told_once(
    silence: Callable[[ClusterRepo], object], looks: Looks, person: Person
) -> None:
    assert await looks.look() == []
    silence(looks.repo)
    assert (await looks.look(), await looks.look()) == (["HooksRepaired"], [])
    person.commits("kind: Node\n")
    status, said = person.pushes()
    assert status == 1
    assert "reconciler: main stays as it was" in said


# --- damage -----------------------------------------------------------------------------------------


def objects(repo: ClusterRepo) -> list[Path]:
    return sorted(each for each in (repo.path / "objects").rglob("*") if each.is_file())


def served(repo: ClusterRepo, person: Person, home: Path) -> Controller:
    """A controller with a revision in force, of two commits with a folder."""
    person.commits(NODE, "nodes/a.yaml")
    person.commits(NODE.replace("name: a", "name: b"), "nodes/b.yaml")
    assert person.pushes()[0] == 0
    return Controller(GitSource(repo), home / "store.db")


async def is_found(looks: Looks, controller: Controller, before: str) -> None:
    """It is told once and shown by the doctor, and what is in force stays."""
    assert await looks.look() == ["RepositoryDamaged"]
    assert await looks.look() == []
    (finding,) = examine_repository(str(looks.repo.path), looks.care.damage)
    assert looks.care.damage in finding.seen
    await controller.desired_state.refresh(None)
    assert controller.desired_state.desired.revision == before
    assert controller.desired_state.desired.objects()


async def test_who_asks_is_told_of_damage_of_this_moment(looks: Looks, person: Person) -> None:
    person.commits(NODE)
    assert person.pushes()[0] == 0
    assert await looks.look() == []
    assert await looks.care.damage_now() == ""
    (largest, *_) = sorted(objects(looks.repo), key=lambda each: -each.stat().st_size)
    _write(largest, b"")
    assert await looks.care.damage_now() == looks.care.damage != ""
    assert [event.reason for event in looks.events] == ["RepositoryDamaged"]


async def test_a_byte_that_flips_in_any_object_is_found_and_changes_nothing_that_is_in_force(
    looks: Looks, person: Person, home: Path
) -> None:
    controller = served(looks.repo, person, home)
    before = (await controller.look()).revision
    assert await looks.look() == []
    damaged = objects(looks.repo)
    assert len(damaged) >= 8
    for each in damaged:
        whole, place = each.read_bytes(), each.stat().st_size // 2
        each.chmod(0o644)
        each.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        await is_found(looks, controller, before)
        each.write_bytes(whole)
        assert await looks.look() == ["RepositoryRepaired"]
    controller.store.close()


DAMAGE: dict[str, Callable[[ClusterRepo], object]] = {
    "a truncated object": lambda repo: _write(objects(repo)[0], objects(repo)[0].read_bytes()[:-5]),
    "an empty object": lambda repo: _write(objects(repo)[0], b""),
    "an object is gone": lambda repo: objects(repo)[0].unlink(),
    "a pack is gone": lambda repo: _lose_the_pack(repo),
}


def _drop_refs(repo: ClusterRepo) -> None:
    """As a tool does that copies no empty folders, once the refs are packed."""
    run_git((f"--git-dir={repo.path}", "pack-refs", "--all"))
    shutil.rmtree(repo.path / "refs")


def _drop_packed(repo: ClusterRepo) -> None:
    run_git((f"--git-dir={repo.path}", "pack-refs", "--all"))
    (repo.path / "packed-refs").unlink()


def _drop_all_refs(repo: ClusterRepo) -> None:
    _drop_refs(repo)
    (repo.path / "packed-refs").unlink()


def _drop_packed_and_head(repo: ClusterRepo) -> None:
    _drop_packed(repo)
    _write(repo.path / "HEAD", b"")


LOST: dict[str, Callable[[ClusterRepo], object]] = {
    "packed-refs is gone": _drop_packed,
    "refs is gone": _drop_refs,
    "refs and what was packed": _drop_all_refs,
    "main is gone": lambda repo: (repo.path / REF).unlink(),
    "a ref is empty": lambda repo: _write(repo.path / REF, b""),
    "a ref of nothing": lambda repo: _write(repo.path / REF, b"1" * 40 + b"\n"),
    "a ref is garbage": lambda repo: _write(repo.path / REF, b"\0\0\0"),
    "HEAD is empty": lambda repo: _write(repo.path / "HEAD", b""),
    "HEAD is garbage": lambda repo: _write(repo.path / "HEAD", b"\0\0\0"),
    "HEAD is gone": lambda repo: (repo.path / "HEAD").unlink(),
    "config is gone": lambda repo: (repo.path / "config").unlink(),
    "config is empty": lambda repo: _write(repo.path / "config", b""),
    "config is zeros": lambda repo: _write(repo.path / "config", bytes(200)),
    "config is cut off": lambda repo: _write(
        repo.path / "config", b"[core]\n\trepositoryformatversion = 0\n[rec"
    ),
    "the branches and HEAD": _drop_packed_and_head,
}
"""What git keeps in one small file, and whose content is known."""


def _write(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def _lose_the_pack(repo: ClusterRepo) -> None:
    run_git((f"--git-dir={repo.path}", "gc", "--quiet", "--prune=now"))
    next((repo.path / "objects" / "pack").glob("*.pack")).unlink()


@pytest.mark.second_tier
@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE)
async def test_damage_is_found_and_what_the_doctor_says_repairs_it(
    harm: Callable[[ClusterRepo], object], looks: Looks, person: Person, home: Path
) -> None:
    controller = served(looks.repo, person, home)
    before = (await controller.look()).revision
    harm(looks.repo)
    await is_found(looks, controller, before)
    looks.repo.path.rename(f"{looks.repo.path}.damaged")
    ClusterRepo.create(looks.repo.path, hooks.command())  # as `reconciler init` does
    await controller.look()
    assert controller.desired_state.desired.revision == before, "an empty repository removes nothing"
    assert person.pushes(str(looks.repo.path), "main")[0] == 0
    assert await looks.look() == ["RepositoryRepaired"]
    desired = await controller.look()
    assert (desired.revision, desired.hold, desired.rejection) == (before, None, None)
    assert damage(looks.repo.path) == ""
    controller.store.close()


@pytest.mark.second_tier
@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
async def test_what_is_lost_and_known_is_written_again_and_nothing_changes_meanwhile(
    lose: Callable[[ClusterRepo], object], looks: Looks, person: Person, home: Path
) -> None:
    looks.repo.configure("", "nodes")
    controller = served(looks.repo, person, home)
    stopped = looks.repo.commit(None, {"x.yaml": b""}, "an operation", AUTHOR, OPERATIONS)
    before = (await controller.look()).revision
    assert await looks.look() == []
    lose(looks.repo)

    assert (await controller.look()).revision == before
    assert controller.desired_state.desired.objects()
    assert (await looks.look(), await looks.look()) == (["RepositoryRestored"], [])

    assert (looks.repo.head(), looks.repo.head(OPERATIONS), looks.repo.folder()) == (before, stopped, "nodes")
    desired = await controller.look()
    assert (desired.revision, desired.hold, desired.rejection) == (before, None, None)
    person.commits("kind: Node\n", "nodes/c.yaml")
    assert person.pushes()[0] == 1, "a push is judged as before"
    assert damage(looks.repo.path) == ""
    controller.store.close()


async def test_settings_that_are_lost_with_their_note_are_told_and_not_guessed(
    looks: Looks, person: Person, home: Path
) -> None:
    looks.repo.configure("", "nodes")
    controller = served(looks.repo, person, home)
    before = (await controller.look()).revision
    _drop_packed(looks.repo)
    (looks.repo.path / "config").unlink()
    assert await looks.look() == ["RepositoryRestored"]  # the branch
    desired = await controller.look()
    assert desired.revision == before
    with pytest.raises(Invalid, match="its config is lost"):
        looks.repo.folder()
    controller.store.close()


async def test_a_branch_that_somebody_removed_is_not_restored(looks: Looks, person: Person) -> None:
    person.commits(NODE)
    assert person.pushes()[0] == 0
    run_git((f"--git-dir={looks.repo.path}", "update-ref", "-d", REF))
    assert await looks.look() == []
    assert looks.repo.head() is None


async def test_a_commit_that_is_lost_with_its_branch_is_not_replaced_by_an_older_one(
    looks: Looks, person: Person
) -> None:
    for name in ("a", "b"):
        person.commits(NODE.replace("name: a", f"name: {name}"))
        assert person.pushes()[0] == 0
    newest = (looks.repo.path / REF).read_text().strip()
    (looks.repo.path / REF).unlink()
    (looks.repo.path / "objects" / newest[:2] / newest[2:]).unlink()
    await looks.look()
    assert not (looks.repo.path / REF).exists()
    with pytest.raises(Invalid, match="refs/heads/main is lost"):
        looks.repo.head()
