"""Pushes by real git through the real hooks: what is let in, and what the pusher reads."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from reconciler.source.git.history import commits
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import MIRROR, NO_COMMIT, ClusterRepo
from reconciler.source.hook import PROBLEMS_SHOWN_MAX
from reconciler.wire import SPOKEN, admin, codec, frames
from tests.source.conftest import NODE, Person, clone

pytestmark = pytest.mark.processes

NOT_RUNNING = "reconciler: the controller is not running; it will pick this up when it starts"
PLAN_UNKNOWN = "reconciler: the manifests are valid; the plan is not known: the controller is not running"


class Controller:
    """The controller's end of its socket. With ``answers`` false it takes a connection and says nothing."""

    def __init__(self, home: Path, answers: bool = True) -> None:
        self.received: list[Any] = []
        self._path = home / "controller.sock"
        self._answers = answers

    async def __aenter__(self) -> Controller:
        self._server = await asyncio.start_unix_server(self._serve, self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (frame := await frames.read(reader)) is not None:
            self.received.append(codec.decode(frame, admin.CONTROLLER_RECEIVES_FROM_CLI))
            if self._answers and "call" not in frame:
                writer.write(frames.encode(codec.to_wire(codec.Hello("controller", SPOKEN))))
            elif self._answers:
                body = {"accept": True, "lines": ["reconciler: a new plan"]}
                answer = {"reply": frame["call"], **codec.to_wire(admin.Answer(body))}
                writer.write(frames.encode(answer))
        writer.close()


def patient(repo: ClusterRepo) -> None:
    """Have the hooks wait for an answer from this process, which has other work too."""
    client = repo.path / "hooks" / "push.py"
    hasty = client.read_text()
    client.write_text(re.sub(r"(GREETING|LOOK)_SECONDS = 1.0", r"\1_SECONDS = 60.0", hasty))
    assert client.read_text() != hasty


def test_good_manifests_are_let_in_and_the_pusher_told_so(repo: ClusterRepo, person: Person) -> None:
    person.commits(NODE)
    status, output = person.pushes()
    head = repo.head()
    assert head is not None
    assert status == 0
    assert output == [PLAN_UNKNOWN, f"reconciler: revision {head[:7]} received", NOT_RUNNING]


async def test_a_push_tells_a_running_controller_to_look(repo: ClusterRepo, person: Person) -> None:
    person.commits(NODE)
    patient(repo)
    async with Controller(repo.path.parent) as controller:
        before = time.time()
        status, output = await asyncio.to_thread(person.pushes)
        after = time.time()
    head = repo.head()
    assert head is not None
    assert (status, output) == (
        0,
        ["reconciler: a new plan", f"reconciler: revision {head[:7]} received"],
    )
    hello, judge, again, look = controller.received
    assert hello == again == codec.Hello("hook", SPOKEN)
    assert (judge.repository, judge.old, judge.new) == (os.path.realpath(repo.path), NO_COMMIT, head)
    assert judge.quarantine.partition("incoming-")[1]
    assert look.name == "source"
    assert before <= look.at <= after


async def test_a_controller_that_is_busy_does_not_hold_up_the_push(repo: ClusterRepo, person: Person) -> None:
    person.commits(NODE)
    async with Controller(repo.path.parent, answers=False):
        status, output = await asyncio.to_thread(person.pushes)
    assert status == 0
    assert output[0] == "reconciler: the manifests are valid; the plan is not known: the controller is busy"
    assert output[2] == "reconciler: the controller is busy; it will pick this up soon"


def test_bad_manifests_are_kept_out_with_every_problem(repo: ClusterRepo, person: Person) -> None:
    person.commits(NODE.replace("local", "locl"), "nodes/a.yaml")
    person.commits("kind: @\n", "b.yaml")
    status, output = person.pushes()
    assert status == 1
    assert output == [
        "reconciler: 2 problems in the manifests:",
        '  b.yaml:1:7: text cannot begin with "@"; put it in quotes',
        '  nodes/a.yaml:6:3: spec.locl: unknown field, did you mean "local"?',
        "reconciler: main stays as it was",
    ]
    assert repo.head() is None


def test_a_file_of_other_things_is_kept_out_and_its_place_is_named(person: Person) -> None:
    person.commits("replicas: 2\n", "values.yaml")
    status, output = person.pushes()
    assert status == 1
    assert output[3:] == [
        "reconciler: every YAML file is a manifest, except in folders whose names begin with a dot;",
        "reconciler: to read one folder of another repository: reconciler source set URL --path DIR",
        "reconciler: main stays as it was",
    ]
    status, output = person.pushes("origin", "HEAD:operations")
    assert (status, output[-1]) == (1, "reconciler: operations stays as it was")
    assert "values.yaml" in "\n".join(output)
    assert not any("--path DIR" in line for line in output), "a remote has no operations of ours"


def test_a_later_commit_that_repairs_an_earlier_one_is_enough(repo: ClusterRepo, person: Person) -> None:
    person.commits("kind: Nod\n")
    person.commits(NODE)
    assert person.pushes()[0] == 0
    assert len(commits(repo)) == 2


def test_problems_beyond_a_screen_or_two_are_counted(person: Person) -> None:
    person.commits("---\n".join(["kind: Nod\napiVersion: reconciler/v1alpha1\n"] * (PROBLEMS_SHOWN_MAX + 7)))
    _, output = person.pushes()
    assert len(output) == PROBLEMS_SHOWN_MAX + 3
    assert output[-2] == "  and 7 more"


def test_other_branches_and_tags_are_taken_and_have_no_effect(repo: ClusterRepo, person: Person) -> None:
    person.commits("kind: Nod\n")
    person.git("tag", "v1")
    for target in ("HEAD:draft", "v1", ":draft"):
        status, output = person.pushes("origin", target)
        assert status == 0
        assert output == [
            "reconciler: only the branches main and operations are reconciled; this push changes nothing"
        ]
    assert repo.head() is None


def test_a_push_of_main_and_another_branch_is_kept_out_as_a_whole(repo: ClusterRepo, person: Person) -> None:
    person.commits("kind: Nod\n")
    assert person.pushes("origin", "HEAD:draft", "HEAD:main")[0] == 1
    assert repo.head() is None


def test_history_cannot_be_dropped_by_force(repo: ClusterRepo, person: Person) -> None:
    person.commits(NODE)
    person.pushes()
    head = repo.head()
    person.git("commit", "--amend", "--message", "rewritten")
    status, output = person.pushes("--force", "origin", "HEAD:main")
    assert (status, repo.head()) == (1, head)
    assert output[0] == (
        "reconciler: this push would drop commits from main, whose history is kept. "
        "Pull and merge first, or go back with git revert"
    )


def test_main_cannot_be_deleted(repo: ClusterRepo, person: Person) -> None:
    person.commits(NODE)
    person.pushes()
    status, output = person.pushes("origin", ":main")
    assert status == 1
    assert output[0] == "reconciler: main cannot be deleted: it is part of the desired state of the cluster"
    assert repo.head() is not None


def test_a_revert_is_an_ordinary_push(repo: ClusterRepo, person: Person) -> None:
    person.commits(NODE)
    person.commits(NODE.replace("name: a", "name: b"))
    person.pushes()
    person.git("revert", "--no-edit", "HEAD")
    assert person.pushes()[0] == 0
    head = repo.head()
    assert head is not None
    assert repo.read(head) == {"a.yaml": NODE.encode()}


def test_of_two_pushes_at_once_one_wins_and_the_other_can_follow(repo: ClusterRepo, person: Person) -> None:
    person.commits(NODE)
    person.pushes()
    people = [clone(repo, name) for name in ("bob", "eve")]
    for other in people:
        other.commits(NODE.replace("name: a", f"name: {other.clone.name}"), f"{other.clone.name}.yaml")
    results: dict[int, int] = {}
    threads = [
        threading.Thread(target=lambda i=i, p=p: results.update({i: p.pushes()[0]}))
        for i, p in enumerate(people)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results.values()) == [0, 1]
    loser = people[next(i for i, status in results.items() if status)]
    assert loser.git("pull", "--quiet", "--rebase", "origin", "main")[0] == 0
    assert loser.pushes()[0] == 0
    head = repo.head()
    assert head is not None
    assert list(repo.read(head)) == ["a.yaml", "bob.yaml", "eve.yaml"]


def test_a_push_from_a_strange_environment_is_validated_all_the_same(
    repo: ClusterRepo, person: Person, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "evil").mkdir()
    (home / "evil" / "yaml.py").write_text("raise SystemExit(0)\n")
    monkeypatch.setenv("PYTHONPATH", str(home / "evil"))
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    (home / ".gitconfig").write_text(f"[core]\n hooksPath = {home}/evil\n quotePath = true\n")
    person.commits("kind: Nod\n", "größe.yaml")
    status, output = person.pushes()
    assert status == 1
    assert 'größe.yaml:1:7: kind: unknown kind "Nod"' in output[2]


def test_a_repo_that_was_moved_still_validates(repo: ClusterRepo, person: Person, home: Path) -> None:
    moved = home / "else where"
    shutil.move(repo.path, moved)
    person.commits("kind: Nod\n")
    status, output = person.pushes(str(moved), "HEAD:main")
    assert status == 1
    assert output[0] == "reconciler: 2 problems in the manifests:"


def test_a_hook_without_its_python_keeps_everything_out_and_says_why(
    repo: ClusterRepo, person: Person
) -> None:
    hook = repo.path / "hooks" / "pre-receive"
    lines = hook.read_text().splitlines()
    python = lines[2].split(" ")[2]
    hook.write_text(hook.read_text().replace(python, "/gone/python"))
    person.commits(NODE)
    status, output = person.pushes()
    assert status == 1
    assert output == ["reconciler: /gone/python is gone; start the reconciler once to renew this hook"]


def test_a_push_to_a_mirror_is_told_where_the_truth_is(repo: ClusterRepo, person: Person) -> None:
    run_git((f"--git-dir={repo.path}", "config", MIRROR, "ssh://git@example.org/hub"))
    person.commits(NODE)
    status, output = person.pushes()
    assert status == 1
    assert output[0] == (
        "reconciler: main is a mirror: the truth is at ssh://git@example.org/hub; push the change there, and it is fetched"
    )
    assert repo.head() is None
