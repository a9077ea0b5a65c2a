"""A home of the version before is taken over by this one: store, agents and ranks, of which none is ended.

The product is replaced in a virtual environment under what runs from it, as `pip install --upgrade` does. The ranks go
on with the code that they have imported; agents are replaced by those of this version; shims stay, as parents of ranks.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from reconciler.remote.runtime.agent_file import build_bundle, write_bundle
from reconciler.source.git.repository import EMPTY
from tests.previous import ROOT, Installation, unpack
from tests.processes import parent_of

from .cluster import Cluster, cluster
from .emulated_macs.macs import answered, epoch

pytestmark = pytest.mark.e2e

MODELS = ROOT / "examples" / "models"
NEWEST_AGENT = f"agent-{build_bundle()[1]}.pyz"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("before"))


@pytest.fixture
def installation(before: Path, tmp_path: Path) -> Installation:
    """Where the version before is installed, until it is replaced."""
    made = Installation(tmp_path / "installation")
    made.install(before)
    return made


def start(made: Cluster, installation: Installation, *arguments: str) -> None:
    """`reconciler up` of the version that is installed, until there is nothing left to do."""
    made.unread = ("", EMPTY)
    command = [str(installation.python), "-m", "reconciler", "--home", str(made.home), "up", "--any-port"]
    with made.log.open("ab") as log:
        made.up = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=made.home.parent,
            env=installation.environment(made.environ),
        )
    made.wait_settled()


def upgrade(made: Cluster, installation: Installation, *arguments: str) -> None:
    """End `up` by SIGTERM, which leaves agents and ranks alone, install this version, and start it."""
    assert made.up is not None
    made.up.send_signal(signal.SIGTERM)
    made.up.wait(60)
    assert made.controller() == made.gateway() == []
    installation.install(ROOT)
    start(made, installation, *arguments)


class Rank(NamedTuple):
    """One rank of a group."""

    name: str
    phase: str
    pid: int
    shim: int
    """Pid of its parent."""


def group(made: Cluster) -> list[Rank]:
    """Every rank that there is."""
    return [
        Rank(rank["metadata"]["name"], rank["phase"], rank["pid"], parent_of(rank["pid"]))
        for rank in made.ranks()
    ]


def steps(made: Cluster) -> list[int]:
    """How far every rank has come, as its agent knows from its shim."""
    return [rank["steps"] for rank in made.ranks()]


def agent_files(made: Cluster) -> set[str]:
    """Names of the files that agents run from."""
    lines = made.processes()
    return {Path(word).name for pid in made.agents() for word in lines[pid].split() if word.endswith(".pyz")}


def reasons(made: Cluster, *wanted: str) -> list[str]:
    """Of all events those with these reasons, oldest first."""
    return [event["reason"] for event in made.events() if event["reason"] in wanted]


def check_taken_over(made: Cluster, deployment: str, found: list[Rank]) -> None:
    """That the group is as it was found, answers, tells the agents of this version of its progress, and was neither ended
    nor formed again; and that there is nothing left to do."""
    assert group(made) == found
    before = steps(made)
    assert answered(made, deployment)
    made.wait("progress", lambda: all(now > then for now, then in zip(steps(made), before, strict=True)))
    assert reasons(made, "EpochAllocated", "RankStarted", "RankExited") == [
        "EpochAllocated",
        *["RankStarted"] * len(found),
    ]
    made.wait("the end of the agents before", lambda: agent_files(made) == {NEWEST_AGENT})
    made.wait_settled()


def check_replaced(made: Cluster, deployment: str, found: list[Rank]) -> None:
    """That the next group serves, and that nothing of the one that was found is left."""
    made.wait("the next group", lambda: epoch(made, deployment) == 2)
    made.wait_settled()
    old = {pid for rank in found for pid in (rank.pid, rank.shim)}
    made.wait("the end of all that was of the old group", lambda: old.isdisjoint(made.processes()))
    assert answered(made, deployment)


def test_a_group_of_the_version_before_is_adopted_and_its_ranks_end_as_they_are_told(
    installation: Installation, before: Path
) -> None:
    wish = ("-f", str(before / "manifests"), "--models", str(MODELS))
    with cluster() as made:
        start(made, installation, *wish)
        assert answered(made, "tiny")
        found = group(made)
        assert [rank[:2] for rank in found] == [("tiny.0.1.0", "ready"), ("tiny.0.1.1", "ready")]
        assert installation.has_run("runner")
        assert NEWEST_AGENT not in agent_files(made)

        upgrade(made, installation, *wish)
        check_taken_over(made, "tiny", found)

        agents = made.home / "agents"
        write_bundle(agents)  # as the next start of a controller does
        assert [path.name for path in agents.iterdir()] == [NEWEST_AGENT]
        made.run("scale", "modeldeployment", "tiny", "--replicas", "0")
        made.wait("the end of the ranks", lambda: made.ranks() == [])
        exits = [event["message"] for event in made.events() if event["reason"] == "RankExited"]
        assert sum("exited with 0 (Completed)" in text for text in exits) == len(found), exits
        made.run("scale", "modeldeployment", "tiny", "--replicas", "1")
        check_replaced(made, "tiny", found)


@contextmanager
def sandbox(made: Cluster, installation: Installation, manifests: Path) -> Iterator[Path]:
    """Emulated Macs, with what is installed there as the runtime of their ranks; the manifests that lead to them."""
    command = [str(installation.python), "-m", "reconciler", "--home", str(made.home), "sandbox"]
    began = ["up", "-f", str(manifests), "--models", str(MODELS), "--detach"]
    environment = installation.environment(made.environ)
    subprocess.run([*command, *began], cwd=made.home.parent, env=environment, check=True)
    try:
        yield made.home / "sandbox" / "cluster"
    finally:
        subprocess.run([*command, "down"], cwd=made.home.parent, env=environment, check=True)


@pytest.mark.nightly
def test_agents_over_ssh_are_replaced_and_the_ranks_of_their_machines_go_on(
    installation: Installation, before: Path, tmp_path: Path
) -> None:
    """The machines keep the runtime of their owner, which is of the version before, also for the ranks of the next group."""
    machines = Installation(tmp_path / "machines")
    machines.install(before)
    with cluster() as made:
        for name in ("HOME", "TMPDIR"):
            made.environment[name] = str(tmp_path / name.lower())
            (tmp_path / name.lower()).mkdir()
        with sandbox(made, machines, before / "examples" / "two-minis") as manifests:
            start(made, installation, "-f", str(manifests))
            assert answered(made, "chat")
            found = group(made)
            assert [rank[:2] for rank in found] == [("chat.0.1.0", "ready"), ("chat.0.1.1", "ready")]
            assert machines.has_run("runner")
            assert not installation.has_run("runner")
            assert NEWEST_AGENT not in agent_files(made)

            upgrade(made, installation, "-f", str(manifests))
            check_taken_over(made, "chat", found)
            os.kill(found[1].pid, signal.SIGKILL)
            check_replaced(made, "chat", found)
            assert made.stop() == 0
