"""`reconciler up` as a person uses it: once, from a watched folder, ended in each way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.shared_cluster.test_healing import ask

from .cluster import MODEL, ROOT, Cluster, cluster, deployment, node

pytestmark = pytest.mark.e2e


@pytest.mark.first_tier
def test_once_answers_a_question_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with cluster() as made:
        elsewhere = {name: str(tmp_path / name.lower()) for name in ("HOME", "TMPDIR")}
        for folder in elsewhere.values():
            Path(folder).mkdir()
        command = [sys.executable, "-m", "reconciler", "--home", str(made.home), "up"]
        command += ["-f", "manifests", "--models", "examples/models", "--any-port", "--once"]
        environment = {**os.environ, **elsewhere}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=150, cwd=ROOT, env=environment, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        made.wait_ended()
        lines = done.stdout.splitlines()
        assert any(line.startswith("endpoint: http://127.0.0.1:") for line in lines)
        answer = lines[lines.index("> What is reconciler?") + 1]
        assert answer.endswith(".")
        assert "reconciler" in answer
        (table,) = [i for i, line in enumerate(lines) if line.split()[:3] == ["NAME", "MODEL", "READY"]]
        assert lines[table + 1].split()[:3] == ["tiny", "tiny", "1/1"]
        assert list(made.home.parent.iterdir()) == [made.home]
        assert [str(path) for folder in elsewhere.values() for path in Path(folder).rglob("*")] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    gateway = (ROOT / "manifests" / "gateway.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text("---\n".join([node("node-a"), MODEL, gateway]))
    (tmp_path / "tiny.yaml").write_text(deployment("tiny", 1))
    return tmp_path


def start(made: Cluster, folder: Path) -> None:
    made.start("--watch", str(folder), "--models", "examples/models", "--any-port")
    made.wait_settled()


def test_sigterm_leaves_ranks_for_the_next_up_and_ctrl_c_ends_everything(folder: Path) -> None:
    with cluster() as made:
        start(made, folder)
        before = [(row["pid"], row["epoch"]) for row in made.ranks()]
        assert made.up is not None
        made.up.send_signal(signal.SIGTERM)
        made.up.wait(60)
        assert {pid for pid, _ in before} <= made.processes().keys()
        assert made.controller() == made.gateway() == []

        start(made, folder)
        assert [(row["pid"], row["epoch"]) for row in made.ranks()] == before
        assert made.stop() == 0
        made.wait_ended()


def test_a_killed_up_costs_nobody_the_endpoint_and_the_next_one_takes_over_what_runs(folder: Path) -> None:
    with cluster() as made:
        start(made, folder)
        before = (made.controller(), made.gateway(), [row["pid"] for row in made.ranks()])
        endpoint = made.endpoint()
        assert made.up is not None
        os.kill(made.up.pid, signal.SIGKILL)
        made.up.wait(10)
        assert ask(made)
        start(made, folder)
        taken = [f"the controller runs already (pid {before[0][0]}) and is taken over"]
        taken += [f"the gateway runs already (pid {before[1][0]}) and is taken over"]
        made.wait("both to be taken over", lambda: all(text in made.log.read_text() for text in taken))
        assert (made.controller(), made.gateway(), [row["pid"] for row in made.ranks()]) == before
        assert made.endpoint() == endpoint
        os.kill(before[1][0], signal.SIGKILL)
        made.wait("another gateway", lambda: made.gateway() not in ([], before[1]))
        assert "the gateway has ended and is restarted" in made.log.read_text()
        assert made.stop() == 0
        made.wait_ended()


def put(file: Path, text: str) -> None:
    """All of it at once: a file that is empty for a moment is another wish."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.replace(file)


def test_a_watched_folder_is_followed_and_a_mistake_changes_nothing(folder: Path) -> None:
    with cluster() as made:
        start(made, folder)
        before = {row["pid"] for row in made.ranks()}
        file = folder / "tiny.yaml"
        good = file.read_text()
        put(file, good.replace("replicas: 1", "replicas: 2").replace("serving:", "servign:"))
        made.wait("the mistake to be told", lambda: "RevisionRejected" in made.run("events").stdout)
        assert 'spec.servign: unknown field, did you mean "serving"?' in made.run("events").stdout
        assert {row["pid"] for row in made.ranks()} == before
        refused = made.run("apply", "-f", str(file), check=False)
        assert refused.returncode == 1

        put(file, good.replace("replicas: 1", "replicas: 0"))
        made.wait("the replica to end", lambda: made.ranks() == [])
        made.wait_settled()


def test_a_second_up_says_who_is_first(folder: Path) -> None:
    with cluster() as made:
        start(made, folder)
        assert made.up is not None
        second = made.run("up", "--watch", str(folder), check=False)
        assert second.returncode == 1
        assert f"(pid {made.up.pid})" in second.stderr
