"""What git may be given, and what may happen to it while it takes it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.source.git import hooks
from reconciler.source.git.leftovers import LOCK_SECONDS_MAX
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import IN_FORCE, KEPT, OPERATIONS_IN_FORCE, ClusterRepo
from reconciler.source.mirror.looking import REMOTE
from reconciler.source.yaml.documents import load
from reconciler.source.yaml.pieces import FILE_BYTES_MAX
from tests.processes import listed, session_of
from tests.source.conftest import AUTHOR, NODE, Person

pytestmark = pytest.mark.processes

BOUND_SECONDS = 60.0
LARGE_BYTES = 8 * 1024 * 1024
"""Random, so that git cannot make it small: receiving it takes long enough to be caught at it."""


def git(repo: ClusterRepo, *arguments: str) -> str:
    return run_git((f"--git-dir={repo.path}", *arguments)).decode()


# --- history ---------------------------------------------------------------------------------------


def test_neither_an_older_commit_nor_another_history_can_be_forced_onto_main(
    repo: ClusterRepo, person: Person
) -> None:
    person.commits(NODE)
    person.commits(NODE.replace("name: a", "name: b"))
    person.pushes()
    head = repo.head()
    person.git("checkout", "--quiet", "--orphan", "other")
    person.commits(NODE)
    for forced in ("main~1:main", "other:main"):
        status, output = person.pushes("--force", "origin", forced)
        assert (status, repo.head()) == (1, head)
        assert "would drop commits from main" in output[0]


# --- a push that is killed ------------------------------------------------------------------------


def receiving(repo: ClusterRepo, session: int) -> bool:
    return any((repo.path / "objects").glob("tmp_objdir-*"))


def validating(repo: ClusterRepo, session: int) -> bool:
    hooks = [process.pid for process in listed() if "reconciler.source.hook" in process.command]
    return any(session_of(pid) == session for pid in hooks)


@pytest.mark.second_tier
@pytest.mark.parametrize("moment", [receiving, validating])
def test_a_push_that_is_killed_leaves_a_repository_that_takes_the_next_one(
    moment: Callable[[ClusterRepo, int], bool], repo: ClusterRepo, person: Person
) -> None:
    person.commits(NODE)
    person.pushes()
    head = repo.head()
    person.git("config", "core.compression", "0")
    for part in range(LARGE_BYTES // FILE_BYTES_MAX):
        (person.clone / f"part{part}.bin").write_bytes(os.urandom(FILE_BYTES_MAX))
    person.commits(NODE.replace("name: a", "name: b"))
    hook = repo.path / "hooks" / "pre-receive"
    validation = hook.rename(hook.with_name("pre-receive.real"))
    validated = hook.with_name("validated")
    hook.write_text(f"#!/bin/sh\n{validation}\ntouch {validated}\nsleep 300\n")
    hook.chmod(0o755)
    push = subprocess.Popen(
        ["git", "push", "--quiet", "origin", "HEAD:main"],
        cwd=person.clone,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + BOUND_SECONDS
    while not moment(repo, push.pid) and not validated.exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert push.poll() is None, "the push was over before it could be killed"
    os.killpg(push.pid, signal.SIGKILL)
    push.wait(BOUND_SECONDS)
    validation.replace(hook)
    assert repo.head() == head
    assert repo.read(head or "") == {"a.yaml": NODE.encode()}
    git(repo, "fsck", "--strict")
    assert any((repo.path / "objects").glob("tmp_objdir-*")), "the quarantine is left behind"
    assert person.pushes()[0] == 0
    assert repo.head() != head
    for leftover in (repo.path / "objects").glob("tmp_objdir-*"):
        os.utime(leftover, (0, 0))
    ClusterRepo.create(repo.path, hooks.command())
    assert not any((repo.path / "objects").glob("tmp_objdir-*"))


def test_a_lock_that_a_killed_git_left_is_removed_soon(repo: ClusterRepo, person: Person) -> None:
    lock = repo.path / "refs" / "heads" / "main.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    fresh = time.time() + 600  # it is fresh, however slow this machine is
    os.utime(lock, (fresh, fresh))
    person.commits(NODE)
    assert repo.tidy() == []
    assert person.pushes()[0] == 1, "one that is fresh may be somebody's"
    assert lock.exists()
    old = time.time() - LOCK_SECONDS_MAX - 60
    os.utime(lock, (old, old))
    assert repo.tidy() == ["refs/heads/main.lock"]
    assert person.pushes()[0] == 0
    assert repo.tidy() == []


def test_a_lock_of_a_note_that_a_killed_git_left_is_removed_too(repo: ClusterRepo) -> None:
    first = repo.commit(None, {"a.yaml": NODE.encode()}, "one", AUTHOR)
    notes: dict[str, str | bytes | None] = {IN_FORCE: first, KEPT: b"{}", OPERATIONS_IN_FORCE: first}
    for name in (*notes, REMOTE):
        lock = repo.path / f"{name}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
    repo.keep(notes)
    assert repo.in_force() == first
    assert repo.tidy() == []


# --- what is in a commit --------------------------------------------------------------------------


def test_links_and_submodules_are_refused_by_a_push_and_lead_nowhere_in_a_commit(
    repo: ClusterRepo, person: Person, home: Path
) -> None:
    (home / "secret.yaml").write_text("secret")
    (person.clone / "out.yaml").symlink_to(home / "secret.yaml")
    (person.clone / "up.yaml").symlink_to("../secret.yaml")
    (person.clone / "folder.yaml").symlink_to(home)
    (person.clone / "self.yaml").symlink_to("a.yaml")
    person.commits(NODE)
    sha = person.git("rev-parse", "HEAD")[1].strip()
    person.git("update-index", "--add", "--cacheinfo", f"160000,{sha},module.yaml")
    person.git("commit", "--quiet", "--message", "add a submodule")
    status, output = person.pushes()
    assert status == 1
    assert output[0] == (
        "reconciler: folder.yaml, module.yaml, out.yaml, self.yaml, up.yaml: "
        "links and submodules are not followed; commit the file itself"
    )
    assert person.pushes("origin", "HEAD:draft")[0] == 0
    assert repo.read(person.git("rev-parse", "HEAD")[1].strip()) == {"a.yaml": NODE.encode()}


def test_a_link_that_a_later_commit_removes_is_no_hindrance(repo: ClusterRepo, person: Person) -> None:
    (person.clone / "link.yaml").symlink_to("a.yaml")
    person.commits(NODE)
    (person.clone / "link.yaml").unlink()
    person.commits(NODE.replace("name: a", "name: b"), "b.yaml")
    assert person.pushes()[0] == 0


def test_files_of_any_name_are_read_and_one_that_is_not_printable_is_named(
    repo: ClusterRepo, person: Person
) -> None:
    for number, name in enumerate(
        ("with space.yaml", "größe/模型.yml", "-f.yaml", "quo\"te's.yaml", "a.YAML")
    ):
        person.commits(NODE.replace("name: a", f"name: n{number}"), name)
    assert person.pushes()[0] == 0
    head = repo.head()
    assert head is not None
    assert len(load(repo.read(head))) == 4, "other endings are other files"
    person.commits(NODE, "two\nlines.yaml")
    status, output = person.pushes()
    assert status == 1
    assert output[1] == "  two\N{REPLACEMENT CHARACTER}lines.yaml:1:1: a file's name must be printable text"


def test_a_name_that_is_no_text_is_named_too(repo: ClusterRepo, person: Person) -> None:
    (person.clone / os.fsdecode(b"\xff\xfe.yaml")).write_text(NODE)
    person.commits(NODE)
    status, output = person.pushes()
    assert status == 1
    assert output[1].endswith(".yaml:1:1: a file's name must be printable text")


def test_no_large_file_gets_into_the_history_even_if_a_later_commit_removes_it(
    repo: ClusterRepo, person: Person
) -> None:
    (person.clone / "weights.safetensors").write_bytes(os.urandom(2 * FILE_BYTES_MAX))
    person.commits(NODE)
    person.git("rm", "--quiet", "weights.safetensors")
    person.commits(NODE.replace("name: a", "name: b"), "b.yaml")
    status, output = person.pushes()
    assert status == 1
    assert output[1] == f"  weights.safetensors: {2 * FILE_BYTES_MAX} bytes"
    assert repo.head() is None


def test_a_push_beyond_the_bound_is_refused_by_git(repo: ClusterRepo, person: Person) -> None:
    git(repo, "config", "receive.maxInputSize", str(1024 * 1024))
    (person.clone / "weights.bin").write_bytes(os.urandom(2 * 1024 * 1024))
    person.commits(NODE)
    status, output = person.git("push", "origin", "HEAD:main")
    assert status == 1
    assert "maximum allowed size" in output
    assert repo.head() is None


def test_a_thousand_documents_in_one_file_are_read(repo: ClusterRepo, person: Person) -> None:
    many = "---\n".join(NODE.replace("name: a", f"name: n{number}") for number in range(1000))
    person.commits(many, "all.yaml")
    started = time.monotonic()
    assert person.pushes()[0] == 0
    pushed = time.monotonic() - started
    head = repo.head()
    assert head is not None
    documents = load(repo.read(head))
    print(f"1,000 documents: pushed and validated in {pushed:.2f} s")
    assert (len(documents), documents[-1].line) == (1000, 999 * 7 + 1)
