"""`cancel` and `restart` are operations on jobs, and on nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.source.git.repository import OPERATIONS, ClusterRepo
from tests.cli.conftest import Cli, Controller, start_cluster
from tests.cli.jobs import TRAIN, answer, answers
from tests.status.jobs import failed, record, run, succeeded


@pytest.fixture
def jobs(cli: Cli, controller: Controller, home: Path, tmp_path: Path) -> Controller:
    """A cluster with two jobs; a controller that knows the runs of one."""
    (tmp_path / "jobs.yaml").write_text(f"{TRAIN}---{TRAIN.replace('train', 'other')}")
    start_cluster(home, str(tmp_path / "jobs.yaml"))
    return controller


def operations(home: Path) -> dict[str, Any]:
    """The specs of the operations by their names."""
    repo = ClusterRepo(home / "cluster.git")
    head = repo.head(OPERATIONS)
    read = [yaml.safe_load(text) for text in (repo.read(head, OPERATIONS) if head else {}).values()]
    return {each["metadata"]["name"]: each["spec"] for each in read}


def test_the_run_that_is_under_way_is_cancelled(cli: Cli, jobs: Controller, home: Path) -> None:
    jobs.answers["get"] = answers(answer(failed(1), run(2), group=record(2, 2)))
    result = cli("cancel", "job/train", "--reason", "wrong data")
    assert result.code == 0, result.err
    assert result.out == "job.reconciler/train cancelled\n"
    spec = operations(home)["cancel.job.train"]
    assert (spec["run"], spec["reason"], spec["target"]) == (
        2,
        "wrong data",
        {"kind": "Job", "name": "train"},
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "no run of these jobs is under way"),
        (("--run", "1"), "run 1 of job/train has ended already: Succeeded"),
        (("--run", "7"), "has no run 7 now; choose one of: 1"),
    ],
)
def test_a_run_that_has_ended_is_not_cancelled(
    cli: Cli, jobs: Controller, home: Path, options: tuple[str, ...], text: str
) -> None:
    jobs.answers["get"] = answers(answer(succeeded(1)))
    result = cli("cancel", "job/train", *options)
    assert result.code == 1
    assert text in result.err
    assert operations(home) == {}


def test_a_job_runs_again(cli: Cli, jobs: Controller, home: Path) -> None:
    jobs.answers["get"] = answers(answer(succeeded(1)))
    result = cli("restart", "job/train", "job/other", "-o", "name")
    assert (result.code, result.out) == (0, "job.reconciler/train\njob.reconciler/other\n"), result.err
    assert {name: spec["verb"] for name, spec in operations(home).items()} == {
        "restart.job.train": "restart",
        "restart.job.other": "restart",
    }


def test_a_dry_run_writes_nothing(cli: Cli, jobs: Controller, home: Path) -> None:
    jobs.answers["get"] = answers(answer(run(1)))
    for command in ("cancel", "restart"):
        assert cli(command, "job/train", "--dry-run=client").code == 0
    assert operations(home) == {}


def test_other_objects_are_refused_with_what_to_use(cli: Cli, controller: Controller, home: Path) -> None:
    start_cluster(home)
    assert "reconciler rollout restart modeldeployment/tiny" in cli("restart", "md/tiny").err
    result = cli("cancel", "md/tiny")
    assert result.code == 1
    assert "this works for jobs only" in result.err
