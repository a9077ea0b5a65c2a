"""Jobs on real parts: real ranks that meet, artifacts that come home, failures, exit codes, preemption, and no run twice."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .cluster import HEADER, MODEL, ROOT, Cluster, cluster, deployment

pytestmark = [pytest.mark.e2e]

SUM = """
import mlx.core as mx
group = mx.distributed.init(strict=True, backend="ring")
total = mx.distributed.all_sum(mx.ones(3) * (group.rank() + 1))
print("rank", group.rank(), "of", group.size(), total.tolist(), flush=True)
with open("sum.txt", "w") as file:
    file.write(str(total.tolist()))
"""
WAITING = "import time\nprint('waiting', flush=True)\ntime.sleep(600)\n"
FAILING = "import sys\nsys.exit(64)\n"


def node(name: str) -> str:
    return (
        "apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata:\n  name: " + name + "\nspec:\n  local: {}\n"
        '  jobs: {allow: {paths: ["jobs/*"]}}\n'
    )


def job(name: str, script: str = "", **spec: Any) -> str:
    """A Job of two ranks; fields are written as they are given."""
    command = f"[python, {script}]" if script else "[sleep, '600']"
    fields = {
        "program": f"{{script: {{command: {command}}}}}",
        "nodes": 2,
        "transport": "[ring-lan]",
        "memory": "64MiB",
    }
    fields |= {"files": f"[jobs/{script}]"} if script else {}
    lines = "".join(f"  {field}: {value}\n" for field, value in {**fields, **spec}.items())
    return f"{HEADER}apiVersion: reconciler/v1alpha1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n{lines}"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes that may run jobs."""
    manifests = tmp_path / "manifests"
    write(manifests, {"nodes.yaml": f"{node('node-a')}---\n{node('node-b')}"})
    with cluster() as made:
        made.start("-f", str(manifests), "--models", "examples/models")
        made.wait_settled()
        yield made


def apply(made: Cluster, folder: Path, files: dict[str, str]) -> None:
    write(folder, files)
    made.run("apply", "-f", ".", cwd=folder)


def run_of(made: Cluster, name: str) -> Any:
    """The newest run of a job."""
    return made.json("get", "job", name, "-o", "json")["status"]["runs"][0]


def test_a_ring_of_two_ranks_computes_its_sum_and_the_artifact_comes_home(
    two: Cluster, tmp_path: Path
) -> None:
    files = {"jobs/sum.py": SUM, "jobs/sum.yaml": job("sum", "sum.py", artifacts="[sum.txt]")}
    apply(two, tmp_path, files)
    two.run("wait", "job/sum", "--timeout", "60s")
    assert run_of(two, "sum")["state"] == "Succeeded"
    logs = two.run("logs", "job/sum").stdout
    assert "rank 1 | rank 1 of 2 [3.0, 3.0, 3.0]" in logs
    two.wait("the artifacts", lambda: run_of(two, "sum")["artifacts"]["state"] == "fetched")
    assert two.run("artifacts", "job/sum", "--rank", "1", "--cat", "sum.txt").stdout == "[3.0, 3.0, 3.0]"
    two.wait_settled()

    two.stop()
    two.wait_ended()
    shutil.rmtree(two.home / "store", ignore_errors=True)
    for path in two.home.glob("store*"):
        path.unlink()
    two.start()
    two.wait_settled()
    assert len(two.json("get", "job", "sum", "-o", "json")["status"]["runs"]) == 1
    assert run_of(two, "sum")["state"] == "Succeeded", (
        "a controller that has lost its store runs nothing again"
    )
    assert not [event for event in two.events() if event["reason"] == "RankStarted"]


def test_a_killed_rank_ends_the_attempt_and_the_next_one_starts(two: Cluster, tmp_path: Path) -> None:
    apply(
        two, tmp_path, {"jobs/wait.py": WAITING, "jobs/wait.yaml": job("wait", "wait.py", gracePeriod="1s")}
    )
    two.wait("the program", lambda: len(two.pids("wait.py")) >= 2)
    os.kill(two.pids("wait.py")[-1], signal.SIGKILL)
    two.wait("the end of the attempt", lambda: run_of(two, "wait")["attempts"][0]["end"] is not None)
    assert run_of(two, "wait")["attempts"][0]["end"] == "RankFailed"
    two.wait("the next attempt", lambda: len(two.pids("wait.py")) >= 2)
    two.run("cancel", "job/wait")
    two.wait("the end of the run", lambda: run_of(two, "wait")["state"] == "Cancelled")
    assert not two.pids("wait.py")
    two.wait_settled()


def test_an_exit_code_that_is_listed_fails_the_run_at_once(two: Cluster, tmp_path: Path) -> None:
    spec = {"failOnExitCodes": "[64]", "backoffLimit": 6}
    apply(two, tmp_path, {"jobs/fail.py": FAILING, "jobs/fail.yaml": job("fail", "fail.py", **spec)})
    waited = two.run("wait", "job/fail", "--timeout", "60s", check=False)
    assert waited.returncode == 1
    run = run_of(two, "fail")
    assert (run["state"], run["reason"], len(run["attempts"])) == ("Failed", "FailOnExitCode", 1)
    two.wait_settled()


def test_a_run_over_its_deadline_ends_with_its_whole_process_tree(two: Cluster, tmp_path: Path) -> None:
    program = '{script: {command: [sh, "-c", "setsid sleep 4711 & sleep 4711"]}}'
    spec = {"program": program, "activeDeadline": "5s", "gracePeriod": "1s"}
    apply(two, tmp_path, {"jobs/late.yaml": job("late", **spec)})

    def begins() -> bool:
        """On a busy machine a run may be over before its program begins: then there is another one."""
        if run_of(two, "late")["state"] == "Failed":
            two.run("restart", "job/late")
        return bool(two.pids("sleep 4711"))

    two.wait("the program", begins)
    two.wait("the deadline", lambda: run_of(two, "late")["state"] == "Failed")
    assert run_of(two, "late")["reason"] == "DeadlineExceeded"
    assert not two.pids("sleep 4711")
    two.wait_settled()


def test_a_job_takes_the_nodes_of_a_preemptible_deployment_and_gives_them_back(
    two: Cluster, tmp_path: Path
) -> None:
    serving = f"{deployment('tiny', 2)}  preemptible: true\n"
    apply(two, tmp_path, {"model.yaml": MODEL, "tiny.yaml": serving})
    two.wait_settled()
    before = {row["epoch"] for row in two.ranks()}
    spec = {"priority": 10, "preempt": "true"}
    text = job("short", "short.py", **spec).replace("  memory: 64MiB\n", "")
    apply(two, tmp_path, {"jobs/short.py": "import time\ntime.sleep(3)\n", "jobs/short.yaml": text})
    two.run("wait", "job/short", "--timeout", "90s")
    two.wait_settled()
    after = max(row["epoch"] for row in two.ranks() if row["phase"] == "ready")
    assert after > max(before), "its group was formed again"
    reasons = [event["reason"] for event in two.events()]
    assert "AttemptEnded" in reasons
    assert two.deployments()["tiny"]["readyReplicas"] == 1


@pytest.mark.needs("mpirun", "hpcc")
def test_hpcc_runs_through_mpi_and_its_figures_come_home(two: Cluster, tmp_path: Path) -> None:
    """With the least figures of each of its tests: it is about the way, and not about speed."""
    lines = (ROOT / "examples" / "jobs" / "jobs" / "hpccinf.txt").read_text().splitlines()
    lines[5], lines[7], lines[10], lines[11] = "200 Ns", "40 NBs", "1 Ps", "2 Qs"
    program = "{mpi: {command: [hpcc]}}"
    spec = {"program": program, "files": "[jobs/hpccinf.txt]", "artifacts": "[hpccoutf.txt]"}
    spec |= {"env": '{OMP_NUM_THREADS: "1", OPENBLAS_NUM_THREADS: "1"}', "backoffLimit": "0"}
    apply(two, tmp_path, {"jobs/hpccinf.txt": "\n".join(lines) + "\n", "jobs/hpcc.yaml": job("hpcc", **spec)})
    two.run("wait", "job/hpcc", "--timeout", "110s")
    two.wait("the artifacts", lambda: run_of(two, "hpcc")["artifacts"]["state"] == "fetched")
    found = two.run("artifacts", "job/hpcc", "--rank", "0", "--cat", "hpccoutf.txt").stdout
    assert "Success=1" in found
    assert "HPL_Tflops=" in found
    two.wait_settled()
