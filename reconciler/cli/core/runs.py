"""Runs of jobs, as commands name them."""

from __future__ import annotations

from typing import Final

import click

from reconciler.errors import Refused
from reconciler.wire.admin import Get
from reconciler.wire.launch import JOB_PREFIX, RankId
from reconciler.wire.objects import Attempt, Job, Run

from .client import Client
from .kinds import kind_named, not_found

JOB: Final = "Job"


def job_named(word: str) -> str:
    """Return the name of a job, from `NAME` or `job/NAME`. Raises ``UsageError`` for another kind."""
    kind, slash, name = word.rpartition("/")
    if not name or (slash and kind_named(kind) != JOB):
        raise click.UsageError(f"expected a job, such as job/train, got: {word}")
    return name


def is_job(word: str) -> bool:
    """Return whether a word is `job/NAME`."""
    kind, slash, _ = word.partition("/")
    try:
        return bool(slash) and kind_named(kind) == JOB
    except click.UsageError:
        return False


def job_of(client: Client, name: str) -> Job:
    """Return a job. Raises ``Refused`` if there is none, with the nearest name."""
    items = client.ask(Get(JOB))["items"]
    found = next((item for item in items if item["metadata"]["name"] == name), None)
    if found is None:
        raise not_found(JOB, name, [item["metadata"]["name"] for item in items])
    return found


def run_of(job: Job, number: int | None = None) -> Run:
    """Return a run, by default the newest. Raises ``Refused`` if there is none, with those that are known."""
    name, runs = job["metadata"]["name"], job["status"].get("runs", [])
    if not runs:
        raise Refused("NotFound", f"job/{name} has had no run; see: reconciler describe job/{name}")
    if number is None:
        return runs[-1]
    found = next((run for run in runs if run["run"] == number), None)
    if found is None:
        known = ", ".join(str(run["run"]) for run in runs)
        raise Refused("NotFound", f"job/{name} has no run {number} now; choose one of: {known}")
    return found


def attempt_of(name: str, run: Run, number: int | None = None) -> Attempt | None:
    """Return an attempt, by default the newest; None if there is none yet. Raises ``Refused`` for an unknown number."""
    attempts = run["attempts"]
    if number is None:
        return attempts[-1] if attempts else None
    found = next((each for each in attempts if each["number"] == number), None)
    if found is None:
        known = ", ".join(str(each["number"]) for each in attempts) or "it has none"
        raise Refused(
            "NotFound", f"run {run['run']} of job/{name} has no attempt {number}; choose one of: {known}"
        )
    return found


def rank_of(name: str, run: Run, attempt: Attempt, rank: int) -> RankId:
    return RankId(f"{JOB_PREFIX}{name}", run["run"], attempt["epoch"], rank)
