"""What `get`, `describe`, `logs` and `wait` say of a job and its runs."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from reconciler.cli.commands.logs.logs import logs
from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.state.jobs import Artifacts, Fetched, RunEnd, RunReason, RunResult
from tests.cli.conftest import Cli, Controller
from tests.cli.jobs import answer, answers, rank_log
from tests.status.jobs import failed, failed_attempt, job, record, run, succeeded

CANCELLED = replace(run(), ended=RunEnd(RunResult.CANCELLED, RunReason.CANCELLED, 90.0, "by Ada"))
RUNNING = answer(run(), group=record(epoch=1))


def shown(controller: Controller, *states: dict[str, Any]) -> None:
    controller.answers["get"] = answers(*states)


# --- get and describe --------------------------------------------------------------------------------


def test_a_table_has_its_state_its_attempt_and_its_exit(cli: Cli, controller: Controller) -> None:
    shown(controller, answer(failed(1), failed(2)))
    above, row = cli("get", "jobs").out.splitlines()
    assert above.split() == ["NAME", "STATE", "RUN", "ATTEMPT", "EXIT", "STARTED", "DURATION", "STATUS"]
    assert row.split()[:5] == ["train", "Failed", "2", "1/7", "3:0"]
    assert "run 2 has failed: it has failed 7 times" in row


@pytest.mark.parametrize("form", ["wide", "table"])
def test_it_fits_a_hundred_columns(
    cli: Cli, controller: Controller, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown(controller, answer(failed(1), of=job(schedule="0 3 * * *")))
    options = ("-o", "wide") if form == "wide" else ()
    lines = cli("get", "jobs", *options).out.splitlines()
    assert max(map(len, lines)) <= 100
    assert "node-a+node-b" in lines[1] or form == "table"


def test_the_content_of_files_is_not_shown_but_its_digest(cli: Cli, controller: Controller) -> None:
    data = base64.b64encode(b"print('hello')\n").decode()
    of = job(files=[{"path": "jobs/train.py", "data": data}], secrets={"TOKEN": {"env": "SECRET"}})
    shown(controller, answer(of=of))
    for form, read in (("yaml", yaml.safe_load), ("json", json.loads)):
        out = cli("get", "job/train", "-o", form).out
        assert data not in out
        (file,) = read(out)["spec"]["files"]
        digest = sha256(b"print('hello')\n").hexdigest()
        assert file == {"path": "jobs/train.py", "executable": False, "sha256": digest}


def test_times_of_runs_and_attempts_are_texts(cli: Cli, controller: Controller) -> None:
    shown(controller, answer(succeeded(scheduled_at=10.0)))
    status = json.loads(cli("get", "job/train", "-o", "json").out)["status"]
    (only,) = status["runs"]
    assert (only["scheduledAt"], only["endedAt"]) == ("1970-01-01T00:00:10.000Z", "1970-01-01T00:02:20.000Z")
    assert only["attempts"][0]["startedAt"] == status["startedAt"] == "1970-01-01T00:01:40.000Z"
    assert (only["seconds"], only["reason"]) == (40.0, "Completed")


def test_describe_has_runs_attempts_ranks_and_the_last_lines_of_the_rank_to_blame(
    cli: Cli, controller: Controller
) -> None:
    fetched = Artifacts(Fetched.PARTLY, 3, 10, "rank 1: node-b gave no answer")
    shown(controller, answer(succeeded(1), failed(2, artifacts=fetched)))
    controller.answers["rank_log"] = rank_log({"job_train.2.2.1": "step 1\nValueError: no data\n"})
    out = cli("describe", "job/train").out
    runs = out.partition("\nRuns:\n")[2].partition("\nConditions:")[0]
    assert [line.split()[:3] for line in runs.splitlines()[1:3]] == [
        ["2", "Failed", "BackoffLimitExceeded"],
        ["1", "Succeeded", "Completed"],
    ]
    assert "3 (partly)" in runs
    assert "Attempts of run 2:" in runs
    assert any(line.split()[3:6] == ["1", "node-b", "3:0"] for line in runs.splitlines()), runs
    assert "out of data" in runs
    assert "ValueError: no data" in out
    assert "reconciler logs job/train --run 2 --attempt 1 --rank 1" in out


def test_describe_of_a_job_without_runs_and_of_one_that_succeeded(cli: Cli, controller: Controller) -> None:
    shown(controller, answer())
    assert "\nRuns:\n  <none>\n" in cli("describe", "job/train").out
    shown(controller, answer(succeeded()))
    assert "Last log" not in cli("describe", "job/train").out


def test_a_plan_names_the_run_and_no_replica(cli: Cli, controller: Controller) -> None:
    text = "job/train/1: needs 2 nodes"
    refused = {"object": "job/train", "replica": "job/train/1", "reason": "NotEnoughNodes", "text": text}
    controller.answers["plan"] = {"steps": [], "waiting": [], "refused": [refused]}
    assert cli("plan").out == "! job/train: job/train/1: needs 2 nodes (NotEnoughNodes)\n"


# --- logs --------------------------------------------------------------------------------------------

LOGS = {
    "job_train.1.2.0": "2026-11-21T10:00:00.000Z loss 2\n2026-11-21T10:00:02.000Z loss 1\n",
    "job_train.1.2.1": "2026-11-21T10:00:01.000Z loss 2\n",
    "job_train.1.1.1": "earlier\n",
}


def test_the_newest_attempt_of_the_newest_run_with_all_ranks_by_time(
    cli: Cli, controller: Controller
) -> None:
    shown(controller, answer(run(1, failed_attempt(1)), group=record(1, 2)))
    controller.answers["rank_log"] = rank_log(LOGS)
    result = cli("logs", "job/train")
    assert (result.code, result.err) == (0, "")
    assert [line.split("|")[0] + line.split("Z ")[1] for line in result.out.splitlines()] == [
        "rank 0 loss 2",
        "rank 1 loss 2",
        "rank 0 loss 1",
    ]
    assert cli("logs", "job/train", "--rank", "1").out == LOGS["job_train.1.2.1"]


def test_an_earlier_attempt_and_ranks_that_are_not_known_any_more(cli: Cli, controller: Controller) -> None:
    shown(controller, answer(run(1, failed_attempt(1)), group=record(1, 2)))
    controller.answers["rank_log"] = rank_log(LOGS)
    result = cli("logs", "job/train", "--run", "1", "--attempt", "1")
    assert (result.code, result.out) == (0, "rank 1 | earlier\n")
    assert "rank 0: node-a has no output of it any more" in result.err
    controller.answers["rank_log"] = rank_log({})
    result = cli("logs", "job/train", "--attempt", "1")
    assert result.code == 1
    assert "no output of run 1 of job/train is left" in result.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--run", "9"), "has no run 9 now; choose one of: 1"),
        (("--attempt", "9"), "has no attempt 9; choose one of: 1, 2"),
        (("--rank", "9"), "has no rank 9; choose one of: 0, 1"),
    ],
)
def test_what_there_is_not_is_told_with_what_there_is(
    cli: Cli, controller: Controller, options: tuple[str, ...], text: str
) -> None:
    shown(controller, answer(run(1, failed_attempt(1)), group=record(1, 2)))
    result = cli("logs", "job/train", *options)
    assert result.code == 1
    assert text in result.err


def test_an_attempt_that_has_written_nothing_says_how_it_ended(cli: Cli, controller: Controller) -> None:
    shown(controller, answer(failed(1)))
    controller.answers["rank_log"] = rank_log({"job_train.1.1.0": "", "job_train.1.1.1": ""})
    result = cli("logs", "job/train")
    assert (result.code, result.out) == (0, "")
    assert "note: attempt 1 of run 1 has no such output; it ended: " in result.err


def test_the_name_of_a_job_alone_is_answered_with_the_command_for_jobs(
    cli: Cli, controller: Controller
) -> None:
    shown(controller, answer(run()))
    controller.answers["get"] = answers(answer(run()))
    result = cli("logs", "train")
    assert result.code == 1
    assert 'modeldeployments "train" not found; it is a job: reconciler logs job/train' in result.err


def test_options_of_jobs_and_of_deployments_are_not_mixed(cli: Cli, controller: Controller) -> None:
    for words in (("job/train", "--replica", "0"), ("job/train", "-p"), ("tiny", "--run", "1")):
        result = cli("logs", *words)
        assert result.code == 2
        assert "need a" in result.err


def test_a_run_that_has_not_started_says_so(cli: Cli, controller: Controller) -> None:
    shown(controller, answer(run()))
    result = cli("logs", "job/train")
    assert result.code == 1
    assert "has no output yet: waits for its nodes" in result.err
    shown(controller, answer())
    assert "has had no run" in cli("logs", "job/train").err


@pytest.mark.parametrize(("end", "code"), [(succeeded(1), 0), (failed(1), 1)])
def test_following_ends_with_the_run_and_with_its_result(
    cli: Cli, controller: Controller, end: Any, code: int
) -> None:
    shown(controller, answer(run()), RUNNING, RUNNING, answer(end))
    controller.answers["rank_log"] = rank_log({"job_train.1.1.0": "one\n", "job_train.1.1.1": "two\n"})
    result = cli("logs", "job/train", "-f")
    assert result.code == code
    assert sorted(result.out.splitlines()) == ["rank 0 | one", "rank 1 | two"]


# --- wait --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "end", "code"),
    [
        ((), succeeded(), 0),
        (("--for=complete",), failed(), 1),
        (("--for=complete",), CANCELLED, 1),
        (("--for=failed",), failed(), 0),
        (("--for=failed",), succeeded(), 1),
        (("--for=ended",), CANCELLED, 0),
        (("--for=condition=Complete",), succeeded(), 0),
    ],
)
def test_a_wait_ends_when_the_run_has_ended(
    cli: Cli, controller: Controller, goal: tuple[str, ...], end: Any, code: int
) -> None:
    shown(controller, RUNNING, RUNNING, answer(end))
    result = cli("wait", "job/train", *goal, "--timeout=20s")
    assert result.code == code
    if code:
        assert "jobs/train cannot meet the condition any more: run 1 " in result.err
    else:
        assert result.out == "job.reconciler/train condition met\n"


def test_a_wait_that_takes_too_long_has_its_own_status(cli: Cli, controller: Controller) -> None:
    shown(controller, RUNNING)
    result = cli("wait", "job/train", "--timeout=0")
    assert result.code == 124
    assert "timed out waiting" in result.err


def test_an_earlier_result_is_not_enough_for_a_newer_spec(cli: Cli, controller: Controller) -> None:
    before = answer(succeeded())
    before["items"][0]["metadata"]["generation"] = 2
    shown(controller, before)
    assert cli("wait", "job/train", "--timeout=0").code == 124


def test_a_goal_of_jobs_is_not_for_others_and_others_have_no_default(
    cli: Cli, controller: Controller
) -> None:
    result = cli("wait", "md/tiny", "--for=complete")
    assert result.code == 2
    assert "complete is for jobs" in result.err
    result = cli("wait", "md/tiny")
    assert result.code == 2
    assert "--for=condition=Ready" in result.err


# --- words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("incomplete", "offered"),
    [("j", ["job/train"]), ("job/t", ["job/train"]), ("job/x", []), ("train", [])],
)
def test_jobs_are_completed_where_logs_are_asked_for(
    controller: Controller, home: Path, incomplete: str, offered: list[str]
) -> None:
    shown(controller, RUNNING)
    context = click.Context(logs, obj=Settings(home))
    found = complete.with_logs(context, logs.params[0], incomplete)
    assert [each.value for each in found] == offered


def test_a_rank_of_a_job_is_described_with_its_job(cli: Cli, controller: Controller) -> None:
    shown(controller, RUNNING)
    assert "reconciler describe job/train" in cli("describe", "rank", "job_train.1.1.0").err
