"""Locks of a git that was killed: whichever it was, and at whatever moment, the next look removes it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.errors import Refused
from reconciler.source.git.leftovers import (
    LOCK_SECONDS_MAX,
    _git_seconds,
    _seconds,
    _working_in,
)
from reconciler.source.git.process import run_git
from reconciler.source.git.pushes import Push
from reconciler.source.git.repository import (
    IN_FORCE,
    NO_COMMIT,
    OPERATIONS,
    OPERATIONS_IN_FORCE,
    REF,
    ClusterRepo,
)
from reconciler.source.sources import GitSource
from tests.source.conftest import AUTHOR, NODE, Person

pytestmark = pytest.mark.processes

LOCKS = (
    "HEAD.lock", "config.lock", "packed-refs.lock", "index.lock", "shallow.lock", "FETCH_HEAD.lock", "gc.pid",
    "gc.pid.lock", "refs/heads/main.lock", "refs/heads/operations.lock", "refs/reconciler/in-force.lock",
    "logs/HEAD.lock", "logs/refs/heads/main.lock", "objects/info/commit-graph.lock", "objects/maintenance.lock",
    "objects/info/commit-graphs/commit-graph-chain.lock", "objects/pack/multi-pack-index.lock",
    "reftable/tables.list.lock", "worktrees/one/index.lock", "packed-refs.new",
)  # fmt: skip
"""Every file by which git keeps others out of a bare repository."""
REFS = [
    f"{top}refs/{kind}/{name}.lock"
    for top in ("", "logs/", "worktrees/one/", "worktrees/one/logs/")
    for kind in ("heads", "tags", "notes", "remotes/origin", "reconciler", "pull/1", "stash", "bisect")
    for name in ("main", "a/b/c", "ümlaut", "with-[brackets]", "x@y", ".hidden-no", "v1.0", "MAIN")
]
"""Locks of refs of every kind, in a worktree too."""
OF_A_DEAD_ONE_SECONDS = LOCK_SECONDS_MAX - 10.0


def made(repo: ClusterRepo, name: str, seconds: float) -> Path:
    """A lock as a git has made it so long ago."""
    lock = repo.path / name
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, (time.time() - seconds,) * 2)
    return lock


@contextmanager
def living_git(path: Path, seconds: float, *options: str) -> Iterator[None]:
    """A git that has run for so long, with its working folder there."""
    command = ("git", *options, "cat-file", "--batch")
    with subprocess.Popen(command, cwd=path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60.0
        while (
            _git_seconds(os.path.realpath(path)).get(process.pid, 0.0) < seconds
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        yield
        process.kill()


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_whose_git_is_dead_is_removed_at_the_next_look(name: str, repo: ClusterRepo) -> None:
    made(repo, name, OF_A_DEAD_ONE_SECONDS)
    assert repo.tidy() == [name]
    assert repo.tidy() == []


def test_locks_of_hundreds_of_refs_are_removed_together(repo: ClusterRepo) -> None:
    for name in REFS:
        made(repo, name, OF_A_DEAD_ONE_SECONDS)
    assert sorted(repo.tidy()) == sorted(REFS)


def test_refs_are_packed_and_removed_after_a_git_that_was_killed_while_it_did_so(repo: ClusterRepo) -> None:
    head = repo.commit(None, {"a.yaml": NODE.encode()}, "one", AUTHOR)
    git = f"--git-dir={repo.path}"
    run_git((git, "update-ref", "refs/heads/other", head))
    run_git((git, "pack-refs", "--all"))
    made(repo, "packed-refs.new", OF_A_DEAD_ONE_SECONDS)
    repo.tidy()
    run_git((git, "update-ref", "-d", "refs/heads/other"))
    run_git((git, "pack-refs", "--all"))
    assert repo.head() == head


def test_a_lock_of_a_moment_ago_and_one_as_old_as_a_living_git_stay(repo: ClusterRepo) -> None:
    fresh = made(repo, "refs/heads/main.lock", -600.0)  # it is fresh, however slow this machine is
    assert repo.tidy() == []
    with living_git(repo.path, 4.0):
        used = made(repo, "packed-refs.lock", 4.0)
        assert repo.tidy() == []
        old = made(repo, "HEAD.lock", LOCK_SECONDS_MAX + 1.0)
        assert repo.tidy() == ["HEAD.lock"], "no git holds a lock for so long"
    assert (fresh.exists(), used.exists(), old.exists()) == (True, True, False)


async def test_a_push_removes_the_lock_of_a_dead_git_and_waits_in_plain_words_for_another(
    repo: ClusterRepo,
) -> None:
    first = repo.commit(None, {"a.yaml": NODE.encode()}, "one", AUTHOR)
    source, push = GitSource(repo), Push(NO_COMMIT, first, REF)
    dead = made(repo, "refs/heads/main.lock", OF_A_DEAD_ONE_SECONDS)
    await source.judge(os.path.realpath(repo.path), "", push)
    assert not dead.exists()
    with living_git(repo.path, 4.0):
        made(repo, "packed-refs.lock", 4.0)
        with pytest.raises(
            Refused, match=r"packed-refs\.lock: another git writes .*: push again in a moment"
        ):
            await source.judge(os.path.realpath(repo.path), "", push)


WRITES: dict[str, Callable[[ClusterRepo, str], object]] = {
    "a commit of a command": lambda repo, head: repo.commit(head, {"b.yaml": b"# b"}, "two", AUTHOR),
    "an operation": lambda repo, head: repo.commit(None, {"b.yaml": b"# b"}, "two", AUTHOR, OPERATIONS),
    "a note": lambda repo, head: repo.keep({IN_FORCE: head, OPERATIONS_IN_FORCE: head}),
}
KEEPS_OUT = [name for name in LOCKS if name.startswith(("HEAD", "packed-refs.lock", "refs/", "logs/"))]


@pytest.mark.second_tier
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("name", KEEPS_OUT)
def test_whatever_writes_waits_for_a_lock_of_a_moment_ago_which_is_removed_though_other_repositories_have_gits(
    name: str, write: Callable[[ClusterRepo, str], object], repo: ClusterRepo, tmp_path: Path
) -> None:
    head = repo.commit(None, {"a.yaml": NODE.encode()}, "one", AUTHOR)
    other = tmp_path / "other"
    run_git(("init", "--quiet", str(other)))
    with living_git(other, 0.1):
        made(repo, name, 0.0)
        write(repo, head)
    assert repo.tidy() == []


@pytest.mark.parametrize("name", [name for name in LOCKS if name.startswith(("objects", "gc", "config"))])
def test_a_lock_that_keeps_no_push_out_is_not_waited_for(name: str, repo: ClusterRepo) -> None:
    lock = made(repo, name, 0.0)
    with living_git(repo.path, 0.1):
        repo.wait_until_free()
        assert lock.exists()


@pytest.mark.parametrize(
    ("begin", "options"),
    [
        (".", ()),
        ("objects", ("--git-dir=..",)),
        ("..", ("--git-dir={name}",)),
        ("..", ("--git-dir", "{name}")),
        ("/", ("--git-dir={path}",)),
        ("..", ("-C", "{name}")),
    ],
)
def test_a_git_at_work_in_the_repository_is_found_however_it_was_begun(
    begin: str, options: tuple[str, ...], repo: ClusterRepo
) -> None:
    told = [each.format(name=repo.path.name, path=repo.path) for each in options]
    command = ("git", *told, "cat-file", "--batch")
    with subprocess.Popen(
        command, cwd=repo.path / begin, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as git:
        assert git.stdin is not None
        assert git.stdout is not None
        git.stdin.write(b"HEAD\n")
        git.stdin.flush()
        git.stdout.readline()  # it has begun
        assert git.pid in _git_seconds(os.path.realpath(repo.path))
        git.kill()


def test_a_git_whose_folder_nobody_may_ask_for_counts_as_at_work() -> None:
    listed = "p1\nfcwd\nn/a/cluster.git\np2\nfcwd\nn/a/cluster.git.old\np3\np4\nfcwd\nn/a/cluster.git/objects\np5\nfcwd\nn/a\n"
    assert _working_in("/a/cluster.git", listed) == {"1", "3", "4"}


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.second_tier) for seed in (2, 3, 4, 5))]
)
def test_whenever_a_git_is_killed_the_next_push_is_taken(
    seed: int, repo: ClusterRepo, person: Person
) -> None:
    draw = random.Random(seed)
    (repo.path / "hooks" / "pre-receive").unlink()  # what it takes is its own matter, and most of the time
    for number in range(12):
        person.commits(NODE.replace("name: a", f"name: n{number}"), f"{number}.yaml")
        command = ("git", "push", "--quiet", "origin", "HEAD:main")
        with subprocess.Popen(
            command, cwd=person.clone, start_new_session=True, stderr=subprocess.DEVNULL
        ) as push:
            time.sleep(draw.uniform(0.0, 0.06))
            os.killpg(push.pid, signal.SIGKILL)
        for lock in repo.path.rglob("*.lock"):
            os.utime(lock, (time.time() - OF_A_DEAD_ONE_SECONDS,) * 2)
        repo.tidy()
        status, output = person.git("push", "origin", "HEAD:main")
        assert status == 0, output


@pytest.mark.parametrize(
    ("shown", "seconds"),
    [("00:03", 3.0), ("02:03", 123.0), ("01:02:03", 3723.0), ("1-00:00:01", 86401.0), ("?", float("inf"))],
)
def test_the_age_of_a_process_is_read_as_ps_shows_it(shown: str, seconds: float) -> None:
    assert _seconds(shown) == seconds
