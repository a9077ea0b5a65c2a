"""Pushes to a cluster whose ranks really serve: followed until ready, and refused where they would end what serves."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.outgoing.forges.double import TOKEN, forge_double
from tests.source.conftest import Person, clone_of

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(400)]


@pytest.fixture
def ada(tiny: Cluster) -> Iterator[Person]:
    """Somebody with a clone of what is in force."""
    with clone_of(tiny.home / "cluster.git") as person:
        yield person


def file_of(person: Person, text: str) -> Path:
    (found,) = [path for path in person.clone.rglob("*.yaml") if text in path.read_text()]
    return found


def changes(person: Person, before: str, after: str, message: str) -> None:
    file = file_of(person, "kind: ModelDeployment")
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    person.git("commit", "--quiet", "--all", "--message", message)


def removes(person: Person, *words: str) -> str:
    """Take the deployment out; the commit."""
    file = file_of(person, "kind: ModelDeployment")
    parts = [part for part in file.read_text().split("---\n") if "kind: ModelDeployment" not in part]
    if any(part.strip() for part in parts):
        file.write_text("---\n".join(parts))
    else:
        file.unlink()
    assert person.git("commit", "--quiet", "--all", "--message", "Serve it no more", *words)[0] == 0
    return person.git("rev-parse", "HEAD")[1].strip()


def said(output: list[str]) -> str:
    return " ".join(line.strip() for line in output)


def pids(cluster: Cluster) -> set[int]:
    return {row["pid"] for row in cluster.ranks()}


def test_a_push_that_waits_ends_when_the_new_ranks_serve(tiny: Cluster, ada: Person) -> None:
    before = pids(tiny)
    changes(ada, "maxBatch: 16", "maxBatch: 12", "Smaller batches")
    status, output = ada.pushes("-o", "wait=5m", "origin", "HEAD:main")
    assert (status, output[-1]) == (0, "reconciler: ready")
    assert "= modeldeployment/tiny: restart with the same weights: serving.maxBatch 16 → 12" in said(output)
    assert {row["phase"] for row in tiny.ranks()} == {"ready"}
    assert not pids(tiny) & before
    ada.git("revert", "--no-edit", "HEAD")
    assert ada.pushes("-o", "wait=5m", "origin", "HEAD:main")[1][-1] == "reconciler: ready"


def test_what_serves_is_removed_by_a_word_in_the_commit_and_by_nothing_less(
    tiny: Cluster, ada: Person
) -> None:
    before = pids(tiny)
    removes(ada)
    status, output = ada.pushes()
    assert (status, output[-1]) == (1, "reconciler: main stays as it was")
    assert "removes modeldeployment/tiny, which serves now" in said(output)
    assert "git commit --amend --no-edit --trailer 'Allow-Removal: tiny'" in said(output)
    status, output = ada.pushes("-o", "plan", "-o", "allow-removal", "origin", "HEAD:main")
    assert (status, "stop rank 0 of tiny/0" in said(output)) == (1, True)
    assert pids(tiny) == before
    ada.git("commit", "--quiet", "--amend", "--no-edit", "--trailer", "Allow-Removal: tiny")
    status, output = ada.pushes("-o", "wait=5m", "origin", "HEAD:main")
    assert (status, output[-1]) == (0, "reconciler: ready")
    assert tiny.ranks() == []
    ada.git("revert", "--no-edit", "HEAD")
    assert ada.pushes("-o", "wait=5m", "origin", "HEAD:main")[1][-1] == "reconciler: ready"


def test_what_no_node_could_ever_hold_is_refused_with_its_figures(tiny: Cluster, ada: Person) -> None:
    before = pids(tiny)
    changes(ada, "maxBatch: 16", "maxBatch: 16\n    kvCache: 900TiB", "Much")
    status, output = ada.pushes()
    assert (status, output[-1]) == (1, "reconciler: main stays as it was")
    assert "no node could ever hold this: ! modeldeployment/tiny: needs " in said(output)
    assert "GiB on 2 nodes, and the nodes declared hold " in said(output)
    assert pids(tiny) == before


def test_a_removal_without_the_word_that_comes_from_a_remote_changes_nothing_and_is_told(
    tiny: Cluster, ada: Person, tmp_path: Path
) -> None:
    before, remote = pids(tiny), tmp_path / "team.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", tiny.home / "cluster.git", remote], check=True)
    (tmp_path / "token").write_text(TOKEN)
    ada.git("remote", "add", "team", str(remote))
    with forge_double("forgejo") as forge:
        tiny.run(
            "source", "set", str(remote), "--interval", "5s", "--forge", "forgejo", "--forge-url", forge.url,
            "--forge-project", "team/cluster", "--forge-token-file", str(tmp_path / "token"), "--no-comment",
        )  # fmt: skip
        try:
            kept = tiny.run("source", "sync").stdout and ada.git("rev-parse", "HEAD")[1].strip()
            commit = removes(ada)
            assert ada.pushes("team", "HEAD:main")[0] == 0, "the remote takes it"
            refused = tiny.run("source", "sync", check=False)
            assert refused.returncode == 1
            assert "removes modeldeployment/tiny, which serves now" in " ".join(refused.stderr.split())
            assert tiny.json("version")["revision"] == kept
            assert pids(tiny) == before
            told = [each["message"] for each in tiny.events() if each["reason"] == "RevisionRejected"]
            assert f"commit {commit[:10]}" in told[-1]
            tiny.wait("the status", lambda: [s for s in forge.statuses if s["commit"] == commit])
            shown = [each for each in forge.statuses if each["commit"] == commit][-1]
            assert shown["state"] == "failure"
            assert shown["description"].startswith("refused: ")
            ada.git("revert", "--no-edit", "HEAD")
            assert ada.pushes("team", "HEAD:main")[0] == 0
            tiny.run("source", "sync")
        finally:
            tiny.run("source", "unset")
    assert pids(tiny) == before
