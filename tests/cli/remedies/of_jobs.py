"""States of jobs in which the product says what to type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reconciler.state import Desired, Memory, Observed, Plan
from reconciler.status import Snapshots, failed_runs
from tests.cli.jobs import TRAIN, answer, answers, rank_log
from tests.cli.live import manifest
from tests.status.jobs import failed, failed_attempt, job, record, run, succeeded

from .bench import Bench
from .scenes import Scene, Scenes, elsewhere, scripted

SCENES = Scenes()


def _shown(bench: Bench, state: dict[str, Any], *words: str) -> Iterator[Scene]:
    with scripted(bench, TRAIN) as controller:
        controller.answers["get"] = answers(state)
        yield Scene(lambda: bench.calls(*words).err, mends=False)


@SCENES.at("cli/commands/logs/run_logs.py", "describe job/{x}")
def a_run_without_output(bench: Bench) -> Iterator[Scene]:
    yield from _shown(bench, answer(run()), "logs", "job/train")


@SCENES.at("cli/core/runs.py", "describe job/{x}")
def a_job_without_runs(bench: Bench) -> Iterator[Scene]:
    yield from _shown(bench, answer(), "logs", "job/train")


@SCENES.at("cli/commands/read/artifacts.py", "describe job/{x}")
def artifacts_that_are_still_being_fetched(bench: Bench) -> Iterator[Scene]:
    pending = answer(succeeded())
    pending["items"][0]["status"]["runs"][0]["artifacts"]["state"] = "pending"
    yield from _shown(bench, pending, "artifacts", "job/train")


@SCENES.at("cli/commands/logs/rank_logs.py", "logs job/{x}")
def the_logs_of_a_job_by_its_name_alone(bench: Bench) -> Iterator[Scene]:
    with scripted(bench, TRAIN) as controller:
        controller.answers["get"] = answers(answer(run(1, failed_attempt(1)), group=record(1, 2)))
        controller.answers["rank_log"] = rank_log(
            {"job_train.1.2.0": "loss 2\n", "job_train.1.2.1": "loss 2\n"}
        )
        yield Scene(lambda: bench.calls("logs", "train").err, mends=False)


@SCENES.at("cli/commands/write/rollout.py", "restart {x}")
def a_job_that_is_restarted_like_a_deployment(bench: Bench) -> Iterator[Scene]:
    with scripted(bench, TRAIN):
        yield Scene(lambda: bench.calls("rollout", "restart", "job/train").err, mends=False)


@SCENES.at("cli/commands/read/describe.py", "describe job/{x}")
def a_rank_of_a_job(bench: Bench) -> Iterator[Scene]:
    yield from _shown(bench, answer(run()), "describe", "rank", "job_train.1.1.0")


@SCENES.at("cli/commands/write/job_runs.py", "get jobs")
def a_job_that_has_ended(bench: Bench) -> Iterator[Scene]:
    yield from _shown(bench, answer(succeeded()), "cancel", "job/train")


@SCENES.at("cli/commands/write/job_runs.py", "rollout restart {x}")
def a_deployment_that_is_restarted_like_a_job(bench: Bench) -> Iterator[Scene]:
    with scripted(bench, manifest("tiny-model"), manifest("tiny")):
        yield Scene(lambda: bench.calls("restart", "modeldeployment/tiny").err, mends=False)


@SCENES.at("status/failed_runs.py", "restart job/{x}")
def a_run_that_has_failed(bench: Bench) -> Iterator[Scene]:
    memory = Memory(token=0, runs={each.id: each for each in (failed(),)})
    (found,) = failed_runs(Snapshots(Desired.of("1", [job()]), Observed(), memory, Plan(), 1_000.0))
    told = found.person.partition("; then ")[2]
    with scripted(bench, TRAIN) as controller:
        controller.answers["get"] = answers(answer(failed()))
        yield Scene(lambda: elsewhere(bench, told), mends=False)
