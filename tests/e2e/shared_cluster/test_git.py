"""The cluster repo: push, refuse, apply, diff."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from tests.e2e.cluster import ROOT, Cluster

pytestmark = pytest.mark.e2e

PUSHES = 8


def git(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=check
    )


@pytest.fixture
def clone(tiny: Cluster, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", str(tiny.home / "cluster.git"), "clone")
    return tmp_path / "clone"


def manifest_with(clone: Path, text: str) -> Path:
    (found,) = [path for path in clone.rglob("*.yaml") if text in path.read_text()]
    return found


def test_replicas_follow_pushes_and_the_quickest_within_a_second(tiny: Cluster, clone: Path) -> None:
    first = {(row["replica"], row["rank"]): row["pid"] for row in tiny.ranks()}
    file = manifest_with(clone, "kind: ModelDeployment")
    delays = []
    for push in range(PUSHES):
        wanted = 1 + (push + 1) % 2
        after = tiny.last_event()
        file.write_text(file.read_text().replace(f"replicas: {3 - wanted}", f"replicas: {wanted}"))
        git(clone, "commit", "-qam", f"Serve {wanted} replicas")
        git(clone, "push", "-q")
        delays.append(first_step_delay(tiny, after))
        tiny.wait_settled()
        assert {row["replica"] for row in tiny.ranks()} == set(range(wanted))
    print("seconds from the hook to the first step:", sorted(round(delay, 3) for delay in delays))
    assert min(delays) <= 1.0, "none was acted on at once, whatever else the machine does"
    survivors = {(row["replica"], row["rank"]): row["pid"] for row in tiny.ranks()}
    assert survivors == first


STEPS = {"EpochAllocated", "RankStarted", "RankStopping"}


def first_step_delay(cluster: Cluster, after: int) -> float:
    """Seconds from the hook's own time stamp to the event of the first step that followed it."""

    def events() -> list[dict[str, str]]:
        return [event for event in cluster.events() if event["id"] > after]

    cluster.wait("a first step", lambda: any(event["reason"] in STEPS for event in events()))
    hook = next(event["hookTime"] for event in events() if event["reason"] == "RevisionApplied")
    step = next(event["time"] for event in events() if event["reason"] in STEPS)
    return (datetime.fromisoformat(step) - datetime.fromisoformat(hook)).total_seconds()


def test_a_push_with_a_mistake_is_refused_and_shown_where(tiny: Cluster, clone: Path) -> None:
    before = tiny.run("get", "modeldeployments", "-o", "json").stdout
    file = manifest_with(clone, "kind: ModelDeployment")
    lines = file.read_text().replace("parallelism:", "paralellism:").replace("replicas: 1", "replicas: one")
    file.write_text(lines)
    name = file.relative_to(clone)
    place = {line.strip(): number for number, line in enumerate(lines.splitlines(), 1)}
    git(clone, "commit", "-qam", "Mistype")
    pushed = git(clone, "push", check=False)
    assert pushed.returncode != 0
    assert (
        f'{name}:{place["paralellism:"]}:3: spec.paralellism: unknown field, did you mean "parallelism"?'
        in pushed.stderr
    )
    assert f"{name}:{place['replicas: one']}:13: spec.replicas: expected a whole number" in pushed.stderr
    assert tiny.run("get", "modeldeployments", "-o", "json").stdout == before


def test_apply_twice_says_unchanged_and_diff_tells_an_edit(tiny: Cluster, tmp_path: Path) -> None:
    again = tiny.run("apply", "-f", str(ROOT / "manifests")).stdout
    assert len(again.splitlines()) == 5
    assert all(line.endswith(" unchanged") for line in again.splitlines())
    assert tiny.run("diff", "-f", str(ROOT / "manifests")).returncode == 0

    edited = tmp_path / "tiny.yaml"
    edited.write_text((ROOT / "manifests" / "tiny.yaml").read_text().replace("maxBatch: 16", "maxBatch: 8"))
    differs = tiny.run("diff", "-f", str(edited), check=False)
    assert differs.returncode == 1
    assert "-    maxBatch: 16" in differs.stdout
    assert "+    maxBatch: 8" in differs.stdout
    assert tiny.run("diff", "-f", str(tmp_path / "missing.yaml"), check=False).returncode > 1


def test_apply_is_a_commit_that_takes_effect(tiny: Cluster, tmp_path: Path) -> None:
    edited = tmp_path / "tiny.yaml"
    text = (ROOT / "manifests" / "tiny.yaml").read_text()
    edited.write_text(text.replace("    maxBatch: 16", "    maxBatch: 16\n    aliases: [gpt-4o]"))
    pids = {row["pid"] for row in tiny.ranks()}
    assert "modeldeployment.reconciler/tiny configured" in tiny.run("apply", "-f", str(edited)).stdout
    tiny.wait("the alias", lambda: "gpt-4o" in tiny.run("get", "modeldeployments", "-o", "json").stdout)
    tiny.run("apply", "-f", str(ROOT / "manifests"))
    tiny.wait_settled()
    assert {row["pid"] for row in tiny.ranks()} == pids, "an alias restarts nothing"
