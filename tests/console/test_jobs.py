"""The pages of jobs: what each run does and how it went, with the logs of its ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.console.snapshot import Snapshot
from reconciler.console.view.acts import acts_of, command
from reconciler.console.view.job import job, jobs
from reconciler.console.view.search import search
from reconciler.state.jobs import Artifacts, Fetched
from tests.cli.jobs import answer
from tests.status.jobs import failed, failed_attempt, record, run, succeeded

from .snapshots import page_of, recorded

HOSTILE = '<script>alert("x")</script>'


def snapshot(*runs: Any, **more: Any) -> Snapshot:
    before = recorded("four-macs")
    return replace(before, objects=(*before.objects, *answer(*runs, **more)["items"]))


def test_the_list_has_each_job_with_its_state() -> None:
    shown = page_of(snapshot(failed(2)), "/jobs")
    assert 'href="/jobs/train"' in shown
    assert '<span class="state bad">Failed</span>' in shown
    assert ">1/7<" in shown
    assert ">3:0<" in shown
    assert "run 2 has failed: it has failed 7 times" in shown
    assert "No Job is in force" in page_of(recorded("four-macs"), "/jobs")


def test_the_page_of_a_job_has_its_runs_with_attempts_ranks_and_their_logs() -> None:
    seen = snapshot(succeeded(1), run(2, failed_attempt(2)), group=record(2, 3))
    shown = page_of(seen, "/jobs/{name}", "train")
    assert '<span class="state busy">Running</span>' in shown
    for epoch in (2, 3):
        for rank in (0, 1):
            assert f'href="/logs/job_train.2.{epoch}.{rank}"' in shown
    assert "exit 3:0" in shown
    assert "out of data" in shown
    assert "RankFailed" in shown
    assert 'href="/nodes/node-b"' in shown
    assert shown.index('id="run-2"') < shown.index('id="run-1"')
    assert "no job with this name" in page_of(seen, "/jobs/{name}", "other")


def test_artifacts_are_told_with_the_command_that_copies_them() -> None:
    partly = Artifacts(Fetched.PARTLY, 3, 2048, f"{HOSTILE} of rank 0: its name is too long")
    shown = page_of(snapshot(succeeded(4, artifacts=partly)), "/jobs/{name}", "train")
    assert "3 files, 2 KiB" in shown or "3 files, 2 KB" in shown, shown
    assert "reconciler artifacts job/train --run 4 --to DIR" in shown
    assert HOSTILE not in shown
    assert "its name is too long" in shown


@pytest.mark.parametrize(
    ("runs", "verbs"),
    [
        ((), ["restart"]),
        ((succeeded(1),), ["restart"]),
        ((failed(1), run(2)), ["cancel", "restart"]),
    ],
    ids=["no run", "ended", "under way"],
)
def test_a_run_is_cancelled_only_while_it_is_under_way(runs: tuple[Any, ...], verbs: list[str]) -> None:
    found = acts_of(snapshot(*runs).job("train"))
    assert [each.verb for each in found] == verbs
    own = {"cancel": "/act/cancel/job/train?run=2", "restart": "/act/restart/job/train"}
    assert [each.href for each in found] == [own[verb] for verb in verbs]


def test_the_command_that_does_the_same() -> None:
    assert command("restart", "job", "train", "new data", "", False) == (
        "reconciler restart job/train --reason 'new data'"
    )
    assert command("cancel", "job", "train", "", "", False, run="3") == "reconciler cancel job/train --run=3"
    assert command("restart", "modeldeployment", "tiny", "", "", False) == (
        "reconciler rollout restart modeldeployment/tiny"
    )


def test_ranks_of_jobs_lead_to_their_job_and_it_is_found_by_its_name() -> None:
    seen = snapshot(run(2), group=record(2, 3))
    row: Any = {**seen.ranks[0], "deployment": "job_train"}
    shown = page_of(replace(seen, ranks=(row,)), "/nodes/{name}", row["node"])
    assert '<a href="/jobs/train">job/train</a>' in shown
    assert [hit.path for hit in search(seen, "job/train")[0].hits] == ["/jobs/train"]


def test_a_job_that_waits_is_in_progress_and_not_at_fault() -> None:
    (line,) = jobs(snapshot(run(1)))
    assert (line.state, line.word, line.exit) == ("busy", "Pending", "")
    found = job(snapshot(), "train")
    assert found is not None
    assert found.runs == ()
