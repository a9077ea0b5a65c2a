"""The cluster repo: made once, read at a commit, written through the same door as everybody's pushes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from reconciler.errors import Conflict, Invalid, InvalidManifests, ReconcilerError, Refused, Unreachable
from reconciler.source.git import hooks
from reconciler.source.git.authors import author_of
from reconciler.source.git.history import commits
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import IN_FORCE, MIRROR, OPERATIONS, REF, Author, ClusterRepo
from reconciler.source.yaml.pieces import FILE_BYTES_MAX
from tests.processes import gone
from tests.source.conftest import AUTHOR, NODE, Person

pytestmark = pytest.mark.processes


def setting(repo: ClusterRepo, name: str) -> str:
    return run_git((f"--git-dir={repo.path}", "config", name)).decode().strip()


def test_creating_twice_changes_nothing(repo: ClusterRepo) -> None:
    revision = repo.commit(None, {"a.yaml": NODE.encode()}, "first", AUTHOR)
    before = {path: path.stat().st_mtime_ns for path in repo.path.rglob("*") if path.is_file()}
    ClusterRepo.create(repo.path, hooks.command())
    assert {path: path.stat().st_mtime_ns for path in repo.path.rglob("*") if path.is_file()} == before
    assert repo.head() == revision


def test_creating_renews_hooks_and_settings_that_are_outdated(repo: ClusterRepo) -> None:
    (repo.path / "hooks" / "pre-receive").write_text("#!/bin/sh\nexit 0\n")
    (repo.path / "hooks" / "post-receive").chmod(0o644)
    run_git((f"--git-dir={repo.path}", "config", "core.hooksPath", "/nowhere"))
    ClusterRepo.create(repo.path, hooks.command())
    assert sys.executable in (repo.path / "hooks" / "pre-receive").read_text()
    assert os.access(repo.path / "hooks" / "post-receive", os.X_OK)
    assert setting(repo, "core.hooksPath") == "hooks"


def as_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def as_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


HARMS: dict[str, Callable[[Path], object]] = {
    "gone": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "no text": lambda file: file.write_bytes(b"\xff\xfe" * 99),
    "half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "a folder": as_folder,
    "a link to itself": as_loop,
    "not executable": lambda file: file.chmod(0o600),
    "nobody's": lambda file: file.chmod(0),
}
OF_A_REPOSITORY = (
    "HEAD", "config", "hooks/pre-receive", "hooks/post-receive", "hooks/push.py", "hooks/checked/post-receive",
    "refs/heads/main", "refs/heads/operations", "refs/reconciler/in-force", "logs/HEAD", "logs/refs/heads/main",
    "packed-refs", "info/refs",
    "objects/info/packs", "objects/info/alternates", "shallow", "index",
)  # fmt: skip


@pytest.mark.second_tier
@pytest.mark.parametrize("harm", HARMS)
def test_whatever_is_harmed_of_a_repository_is_mended_or_told(
    harm: str, repo: ClusterRepo, tmp_path: Path
) -> None:
    first = repo.commit(None, {"a.yaml": NODE.encode()}, "one", AUTHOR)
    repo.commit(None, {"x.yaml": b""}, "an operation", AUTHOR, OPERATIONS)
    repo.keep({IN_FORCE: first})
    present = [each.relative_to(repo.path) for each in sorted((repo.path / "objects").glob("*/*"))]
    places = [*map(str, present), *OF_A_REPOSITORY]
    for number, place in enumerate(places):
        harmed = tmp_path / f"{number}" / "cluster.git"
        shutil.copytree(repo.path, harmed)
        file = harmed / place
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
        file.chmod(0o600)
        HARMS[harm](file)
        with suppress(ReconcilerError):
            ClusterRepo.create(harmed, hooks.command())
            found = ClusterRepo(harmed)
            assert found.head() in (first, None)
            found.read(first)


@pytest.mark.parametrize("place", ["hooks", "hooks/pre-receive", "hooks/push.py", "hooks/checked"])
def test_what_is_in_the_place_of_a_hook_is_named_and_left_alone(repo: ClusterRepo, place: str) -> None:
    (repo.path / place).rename(repo.path / "away")
    (repo.path / place).write_text("") if (repo.path / "away").is_dir() else (repo.path / place).mkdir()
    with pytest.raises(Invalid, match=f"the hook .*{place}.* cannot be written: .*; move away what"):
        ClusterRepo.create(repo.path, hooks.command())
    assert not list((repo.path / "hooks").glob(".*"))


def test_a_folder_of_something_else_is_left_alone(home: Path) -> None:
    (home / "cluster.git").mkdir()
    (home / "cluster.git" / "thesis.txt").write_text("all of it")
    with pytest.raises(Invalid, match="is not a git repository: move it away"):
        ClusterRepo.create(home / "cluster.git", hooks.command())
    assert [path.name for path in (home / "cluster.git").iterdir()] == ["thesis.txt"]


def test_an_empty_repo_has_no_head_and_no_log(repo: ClusterRepo) -> None:
    assert repo.head() is None
    assert commits(repo) == ()


def test_a_commit_is_read_as_its_yaml_files(repo: ClusterRepo, person: Person) -> None:
    for file in ("b.yaml", "deep/er/c.yml", "ä ö.yaml"):
        person.commits(NODE.replace("name: a", f"name: n{len(file)}"), file)
    for file in ("README.md", ".hidden/x.yaml", ".x.yaml"):
        person.commits("not: [a manifest", file)
    person.commits("x", "y.txt")
    assert person.pushes()[0] == 0
    head = repo.head()
    assert head is not None
    assert list(repo.read(head)) == ["b.yaml", "deep/er/c.yml", "ä ö.yaml"]
    assert repo.read(head)["b.yaml"].decode() == NODE.replace("name: a", "name: n6")


def test_files_beyond_the_bound_are_named(repo: ClusterRepo, person: Person) -> None:
    person.commits("#" * (FILE_BYTES_MAX + 1), "large.yaml")
    person.commits("#" * (FILE_BYTES_MAX + 2), "larger.yaml")
    status, output = person.pushes()
    assert status == 1
    assert output[1:3] == [
        f"  large.yaml: {FILE_BYTES_MAX + 1} bytes",
        f"  larger.yaml: {FILE_BYTES_MAX + 2} bytes",
    ]


@pytest.mark.parametrize("revision", ["main", "--all", "abc1234", "HEAD~1", ""])
def test_only_full_commit_ids_are_read(repo: ClusterRepo, revision: str) -> None:
    with pytest.raises(Invalid, match="expected a full commit id"):
        repo.read(revision)


def test_commits_are_made_on_top_of_each_other(repo: ClusterRepo) -> None:
    first = repo.commit(None, {"a.yaml": NODE.encode(), "notes/x.txt": b"1\r\n"}, "first\n\nbody", AUTHOR)
    second = repo.commit(first, {"a.yaml": None, "b.yaml": NODE.encode()}, "second", Author("Bob", "b@c"))
    assert repo.head() == second
    assert list(repo.read(second)) == ["b.yaml"]
    assert [(c.revision, c.author, c.subject) for c in commits(repo)] == [
        (second, "Bob", "second"),
        (first, "Ada", "first"),
    ]
    assert repo.is_ancestor(first, second)
    assert not repo.is_ancestor(second, first)


def test_a_commit_without_a_change_is_none(repo: ClusterRepo) -> None:
    first = repo.commit(None, {"a.yaml": NODE.encode()}, "first", AUTHOR)
    assert repo.commit(first, {"a.yaml": NODE.encode()}, "again", AUTHOR) == first
    assert len(commits(repo)) == 1


def test_a_commit_on_something_older_is_a_conflict(repo: ClusterRepo) -> None:
    first = repo.commit(None, {"a.yaml": NODE.encode()}, "first", AUTHOR)
    second = repo.commit(first, {"a.yaml": b"# nothing\n"}, "second", AUTHOR)
    with pytest.raises(Conflict):
        repo.commit(first, {"b.yaml": NODE.encode()}, "late", AUTHOR)
    with pytest.raises(Conflict):
        repo.commit(None, {"b.yaml": NODE.encode()}, "later", AUTHOR)
    assert repo.head() == second


def test_of_many_commits_at_once_on_one_base_exactly_one_lands(repo: ClusterRepo) -> None:
    base = repo.commit(None, {"a.yaml": NODE.encode()}, "base", AUTHOR)
    landed: list[str] = []
    lost: list[Conflict] = []

    def change(number: int) -> None:
        try:
            landed.append(repo.commit(base, {f"{number}.yaml": b"# x\n"}, f"change {number}", AUTHOR))
        except Conflict as conflict:
            lost.append(conflict)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (landed, len(lost)) == ([repo.head()], 3)


def test_a_commit_of_bad_manifests_is_refused_with_the_problems(repo: ClusterRepo) -> None:
    with pytest.raises(Refused, match=r"a\.yaml:4:3: metadata\.nam: unknown field") as refused:
        repo.commit(None, {"a.yaml": NODE.replace("name:", "nam:").encode()}, "bad", AUTHOR)
    assert refused.value.code == "Rejected"
    assert repo.head() is None


def test_a_commit_that_was_checked_before_its_push_is_not_checked_again_and_announced_all_the_same(
    repo: ClusterRepo,
) -> None:
    checks: list[tuple[str, str]] = []

    def check(repo: ClusterRepo, old: str, new: str, ref: str) -> str:
        assert ref == REF
        checks.append((old, new))
        return "no" if list(repo.read(new)) == ["b.yaml"] else ""

    hooks.install(repo.path / "hooks", ("false",))
    announced = repo.path / "announced"
    after = repo.path / "hooks" / hooks.CHECKED / "post-receive"
    after.write_text(f"#!/bin/sh\ncat > {announced}\n")
    checked = ClusterRepo(repo.path, check=check)
    first = checked.commit(None, {"a.yaml": NODE.encode()}, "first", AUTHOR)
    assert (repo.head(), checks) == (first, [("0" * 40, first)])
    assert announced.read_text() == f"{'0' * 40} {first} refs/heads/main\n"
    with pytest.raises(Refused, match="no"):
        checked.commit(first, {"a.yaml": None, "b.yaml": NODE.encode()}, "second", AUTHOR)
    with pytest.raises(Refused):
        repo.commit(first, {"c.yaml": b"# x"}, "whoever has not checked it", AUTHOR)
    assert repo.head() == first


def test_main_takes_no_commit_while_it_is_a_mirror_and_other_branches_do(repo: ClusterRepo) -> None:
    first = repo.commit(None, {"a.yaml": NODE.encode()}, "first", AUTHOR)
    assert repo.mirrored() == ""
    run_git((f"--git-dir={repo.path}", "config", MIRROR, "https://example.org/hub.git"))
    assert repo.mirrored() == "https://example.org/hub.git"
    with pytest.raises(
        Refused, match=r"the truth is at https://example\.org/hub\.git; push the change there"
    ):
        repo.commit(first, {"b.yaml": b"# x"}, "second", AUTHOR)
    other = repo.commit(None, {"b.yaml": b"# x"}, "beside", AUTHOR, "refs/heads/drafts")
    assert (repo.head(), repo.head("refs/heads/drafts")) == (first, other)


@pytest.mark.parametrize("path", ["../a.yaml", "/a.yaml", ".Git/hooks/x", "a//b.yaml", "a\nb.yaml", ""])
def test_paths_that_are_none_within_the_repo_are_invalid(repo: ClusterRepo, path: str) -> None:
    with pytest.raises(Invalid, match="expected a path within the cluster repo"):
        repo.commit(None, {path: b""}, "bad", AUTHOR)
    assert repo.head() is None


def test_a_users_own_git_configuration_does_not_reach_the_repo(
    repo: ClusterRepo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".gitconfig").write_text(
        "[user]\n name = Grace\n email = g@example.org\n"
        f"[core]\n hooksPath = {home}/evil\n[commit]\n gpgSign = true\n[push]\n gpgSign = true\n followTags = true\n"
        f'[url "/nowhere/"]\n insteadOf = {home}/\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
    revision = repo.commit(None, {"a.yaml": NODE.encode()}, "first", AUTHOR)
    assert repo.head() == revision
    with pytest.raises(Refused):
        repo.commit(revision, {"b.yaml": b"kind: Nod\n"}, "bad", AUTHOR)


def test_an_author_is_who_git_says(person: Person, home: Path) -> None:
    assert author_of(person.clone) == Author("ada", "ada@example.org")


@pytest.mark.parametrize("moment", ["nonsense", "1", "2026-11-27T10:00:00+01:00"])
def test_an_author_is_the_same_at_whatever_moment_the_user_has_set(
    person: Person, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setenv("GIT_AUTHOR_DATE", moment)
    assert author_of(person.clone) == Author("ada", "ada@example.org")


def test_an_author_without_a_configuration_is_the_account(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".gitconfig").write_text("[user]\n useConfigOnly = true\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LOGNAME", "ada")
    author = author_of(home)
    assert author.name == "ada"
    assert author.email.startswith("ada@")


def test_a_missing_git_is_named(repo: ClusterRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Invalid, match="git is not installed"):
        repo.head()


@pytest.mark.parametrize(
    "child",
    [
        "exec sleep 300",
        "trap '' HUP INT TERM; exec sleep 300",
        "exec >/dev/null 2>&1 </dev/null; exec sleep 300",
    ],
    ids=["waits for it", "ignores signals", "holds no pipe"],
)
def test_a_git_that_does_not_answer_is_ended_with_all_its_children(
    child: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, started = home / "git", home / "started"
    slow.write_text(f"#!/bin/sh\n({child}) &\necho $! >{started}\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(home), prepend=os.pathsep)
    pid = 0
    for seconds in (0.2, 2.0, 20.0):  # a busy machine needs more time to start the child
        with pytest.raises(Unreachable, match=rf"git status took more than {seconds:g} s"):
            run_git(("status",), timeout_seconds=seconds)
        if started.exists() and (text := started.read_text().strip()):
            pid = int(text)
            break
    assert pid > 1
    for _ in range(300):  # what was killed is gone a moment later
        if gone(pid):
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the child goes on")


def test_a_large_repo_is_read_at_once(repo: ClusterRepo) -> None:
    changes: dict[str, bytes | None] = {
        f"n/{i}.yaml": NODE.replace("name: a", f"name: n{i}").encode() for i in range(40)
    }
    revision = repo.commit(None, changes, "many", AUTHOR)
    assert repo.read(revision) == dict(sorted(changes.items()))


def test_a_revision_that_is_not_there_is_invalid(repo: ClusterRepo) -> None:
    with pytest.raises(Invalid, match="git ls-tree"):
        repo.read("0" * 40)


def test_too_many_files_are_refused(repo: ClusterRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    revision = repo.commit(None, {"a.yaml": NODE.encode(), "b.yaml": b"# x\n"}, "two", AUTHOR)
    monkeypatch.setattr("reconciler.source.git.repository.DOCUMENTS_MAX", 1)
    with pytest.raises(InvalidManifests, match=r"a\.yaml:1:1: more than 1 files"):
        repo.read(revision)
