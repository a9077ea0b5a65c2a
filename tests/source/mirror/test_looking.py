"""One look at a remote: what is taken, what is refused, and what is left of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress

import pytest

from reconciler.errors import Conflict, Invalid, Refused, Unreachable
from reconciler.source.git import repository
from reconciler.source.git.repository import ClusterRepo
from tests.e2e.cluster import deployment
from tests.source.conftest import NODE, Person

from .conftest import Home, pushed, sent

pytestmark = pytest.mark.processes


def test_a_new_commit_comes_to_main_and_nothing_else_is_left(follower: Home, remote: Person) -> None:
    first = pushed(remote, NODE)
    look = follower.look()
    assert (look.revision, look.moved, look.refusal, follower.head) == (first, True, "", first)
    assert follower.left() == []
    second = pushed(remote, NODE.replace("name: a", "name: b"), "b.yaml")
    assert follower.look(at_once=False).moved
    assert follower.head == second
    assert not follower.look(at_once=False).moved
    assert not follower.look().moved


def test_a_mirror_refuses_a_push_and_names_the_truth(follower: Home, remote: Person, person: Person) -> None:
    pushed(remote, NODE)
    follower.look()
    person.commits(NODE)
    status, words = person.pushes("--force", "origin", "HEAD:main")
    assert status == 1
    assert f"the truth is at {follower.body['url']}" in words[0]


def test_a_broken_commit_is_refused_with_its_place_and_fetched_once(follower: Home, remote: Person) -> None:
    good = pushed(remote, NODE)
    follower.look()
    broken = pushed(remote, NODE.replace("kind: Node", "kind: Nod"))
    look = follower.look()
    assert "a.yaml:2:7: kind: unknown kind" in look.refusal
    assert (look.revision, follower.head, follower.has(broken)) == (broken, good, False)
    objects = sum(1 for _ in (follower.repo.path / "objects").rglob("*"))
    assert follower.look() == look, "remembered, and only asked for"
    assert sum(1 for _ in (follower.repo.path / "objects").rglob("*")) == objects
    mended = pushed(remote, NODE)
    assert follower.look().moved
    assert follower.head == mended


def test_a_rewound_branch_is_refused_unless_allowed(follower: Home, remote: Person) -> None:
    pushed(remote, NODE)
    follower.look()
    kept = pushed(remote, NODE + "# more\n")
    follower.look()
    remote.git("reset", "--quiet", "--hard", "HEAD~1")
    rewound = sent(remote, force=True)
    look = follower.look()
    assert f"{rewound[:10]}, which does not have 1 commit up to {kept[:10]}" in look.refusal
    assert "reconciler source set --allow-rewind" in look.refusal
    assert follower.head == kept
    follower.body["allowRewind"] = True
    follower.last = None
    look = follower.look()
    assert (look.moved, look.dropped, follower.head) == (True, 1, rewound)


def test_ten_thousand_files_are_refused_before_one_is_read(
    follower: Home, remote: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = pushed(remote, NODE)
    follower.look()
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"],
        cwd=remote.clone,
        input=NODE,
        text=True,
        capture_output=True,
        check=True,
    ).stdout.strip()
    listed = "".join(f"100644 blob {blob}\tn{number}.yaml\n" for number in range(10_000))
    tree = subprocess.run(
        ["git", "mktree"], cwd=remote.clone, input=listed, text=True, capture_output=True, check=True
    )
    commit = remote.git("commit-tree", tree.stdout.strip(), "-p", "HEAD", "-m", "many")[1].strip()
    remote.git("reset", "--quiet", "--soft", commit)
    sent(remote)
    with monkeypatch.context() as patch:
        patch.delattr(repository, "contents_of")
        assert "more than 4096 files" in follower.look().refusal
    assert (follower.head, follower.has(commit)) == (good, False)


def test_a_file_that_is_too_large_is_refused_by_its_size(follower: Home, remote: Person) -> None:
    good = pushed(remote, NODE)
    follower.look()
    large = pushed(remote, NODE + "#" * (1024 * 1024), "b.yaml")
    assert "b.yaml: 1048657 bytes" in follower.look().refusal
    assert (follower.head, follower.has(large)) == (good, False)


def test_a_link_and_a_dangling_name_are_refused_as_in_a_push(follower: Home, remote: Person) -> None:
    good = pushed(remote, NODE)
    follower.look()
    (remote.clone / "b.yaml").symlink_to("/etc/passwd")
    remote.git("add", "--all")
    remote.git("commit", "--quiet", "--message", "link")
    sent(remote)
    assert "b.yaml: links and submodules are not followed" in follower.look().refusal
    remote.git("rm", "--quiet", "b.yaml")
    pushed(remote, deployment("tiny", 1), "c.yaml")
    assert "c.yaml:" in follower.look().refusal
    assert follower.head == good


def test_a_download_ends_at_its_limit(follower: Home, remote: Person) -> None:
    pushed(remote, NODE)
    follower.look()
    (remote.clone / "weights.bin").write_bytes(os.urandom(3 * 1024 * 1024))
    remote.git("add", "--all")
    remote.git("commit", "--quiet", "--message", "weights")
    sent(remote)
    follower.bytes_max = 1024 * 1024
    with pytest.raises(Refused, match="more than 1048576 bytes at once"):
        follower.look()
    assert follower.left() == []


def test_only_the_folder_of_the_path_counts(follower: Home, remote: Person) -> None:
    pushed(remote, "kind: kustomization is not ours\n", "apps/kustomization.yaml")
    first = pushed(remote, NODE, "clusters/studio/nodes/a.yaml")
    follower.body["path"] = "clusters/studio"
    assert follower.look().moved
    assert list(follower.repo.read(first)) == ["clusters/studio/nodes/a.yaml"]
    remote.git("mv", "clusters/studio", "clusters/other")
    pushed(remote, NODE, "clusters/other/nodes/a.yaml")
    assert "clusters/studio:1:1: there is no such folder in this commit" in follower.look().refusal
    assert follower.head == first


def _away(home: Home, remote: Person) -> None:
    home.body["url"] += "-elsewhere"


def _no_branch(home: Home, remote: Person) -> None:
    home.body["ref"] = {"branch": "release"}


def _rewound(home: Home, remote: Person) -> None:
    remote.git("checkout", "--quiet", "--orphan", "other")
    pushed(remote, NODE, "clusters/studio/a.yaml", force=True)


def _wrong(home: Home, remote: Person) -> None:
    pushed(remote, "kind: [", f"{home.body['path']}/a.yaml")


def _missing(home: Home, remote: Person) -> None:
    """The same commit, which has no such folder."""


@pytest.mark.second_tier
@pytest.mark.parametrize("path", ["clusters/studio", "clusters/studio [1]", "x"])
@pytest.mark.parametrize("before", ["", "nodes"])
@pytest.mark.parametrize("hinder", [_away, _no_branch, _rewound, _wrong, _missing])
def test_what_is_there_stays_readable_until_a_look_brings_the_folder(
    hinder: Callable[[Home, Person], None], before: str, path: str, follower: Home, remote: Person
) -> None:
    first = pushed(remote, NODE, "nodes/a.yaml")
    follower.body["path"] = before
    follower.look()
    good = dict(follower.body)
    follower.body["path"], follower.last = path, None
    hinder(follower, remote)
    for _ in range(2):
        with suppress(Unreachable, Invalid):
            assert follower.look().refusal
        assert (follower.head, follower.repo.folder()) == (first, before)
        assert list(follower.repo.read(first)) == ["nodes/a.yaml"]
    follower.body, follower.last = {**good, "path": path, "allowRewind": True}, None
    taken = pushed(remote, NODE + "# new\n", f"{path}/a.yaml", force=True)
    assert follower.look().moved
    assert list(follower.repo.read(taken)) == [f"{path}/a.yaml"]


def test_a_missing_branch_is_for_a_person_and_a_missing_remote_is_away(
    follower: Home, remote: Person
) -> None:
    pushed(remote, NODE)
    follower.body["ref"] = {"branch": "release"}
    for at_once in (True, False):
        with pytest.raises(Invalid, match="has no branch release; push it, or name another with --branch"):
            follower.look(at_once)
    follower.body["url"] = follower.body["url"] + "-gone"
    with pytest.raises(Unreachable, match="cannot be fetched"):
        follower.look()


def test_a_controller_that_was_replaced_moves_nothing(follower: Home, remote: Person) -> None:
    pushed(remote, NODE)
    follower.deposed = True
    with pytest.raises(Conflict):
        follower.look()
    assert follower.head is None


def test_what_a_killed_look_has_left_is_removed_by_the_next(follower: Home, remote: Person) -> None:
    pushed(remote, NODE)
    (follower.repo.path.parent / "incoming-branch-dead" / "git").mkdir(parents=True)
    follower.look()
    assert follower.left() == []


def test_unset_makes_the_home_the_truth_again(follower: Home, remote: Person, repo: ClusterRepo) -> None:
    from reconciler.source.mirror.looking import configure

    pushed(remote, NODE)
    follower.body["path"] = ""
    follower.look()
    assert repo.mirrored() == follower.body["url"]
    configure(repo, None)
    assert (repo.mirrored(), repo.folder()) == ("", "")
