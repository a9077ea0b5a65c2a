"""Jobs and their runs, made by hand."""

from __future__ import annotations

from typing import Any

from reconciler.resources import Job
from reconciler.state import GroupRecord, JobName, NodeName, RunId
from reconciler.state.job_fingerprint import fingerprint
from reconciler.state.jobs import AttemptEnd, RankEnd, Run, RunAttempt, RunEnd, RunReason, RunResult
from reconciler.wire.launch import Exit
from tests.worlds import manifest

TRAIN = JobName("train")
NODES = (NodeName("node-a"), NodeName("node-b"))


def job(**spec: Any) -> Job:
    program = {"script": {"command": ["python", "train.py"]}}
    made: Job = manifest(Job, TRAIN, **{"program": program, "nodes": 2, **spec})
    return made


def attempt(epoch: int, end: AttemptEnd, *exits: Exit | None, text: str = "") -> RunAttempt:
    ranks = tuple(RankEnd(node, exit) for node, exit in zip(NODES, exits, strict=True))
    return RunAttempt(epoch, 100.0 * epoch, 100.0 * epoch + 40.0, end, text or end.value, ranks, "ring-lan")


def failed_attempt(epoch: int, code: int = 3) -> RunAttempt:
    """Rank 1 has failed by itself, and rank 0 was asked to end and had to be killed."""
    one = Exit(code, None, 100.0 * epoch + 30.0, "out of data")
    other = Exit(None, 9, 100.0 * epoch + 35.0, killed_after=5.0)
    return attempt(epoch, AttemptEnd.RANK_FAILED, other, one, text=f"rank 1 on node-b exited with {code}")


def good_attempt(epoch: int) -> RunAttempt:
    done = Exit(0, None, 100.0 * epoch + 40.0)
    return attempt(epoch, AttemptEnd.COMPLETED, done, done)


MARK = fingerprint(job())
OTHER = "0" * 16
"""The fingerprint of a run of another spec."""


def run(index: int = 1, *attempts: RunAttempt, fingerprint: str = MARK, **more: Any) -> Run:
    started = attempts[0].started_at if attempts else None
    return Run(RunId(TRAIN, index), fingerprint, 50.0 + index, started_at=started, attempts=attempts, **more)


def succeeded(index: int = 1, **more: Any) -> Run:
    return run(
        index,
        good_attempt(index),
        ended=RunEnd(
            RunResult.SUCCEEDED, RunReason.COMPLETED, 100.0 * index + 40.0, "all ranks exited with 0"
        ),
        **more,
    )


def failed(index: int = 1, reason: RunReason = RunReason.BACKOFF_LIMIT, **more: Any) -> Run:
    text = "it has failed 7 times, more than backoffLimit allows"
    end = RunEnd(RunResult.FAILED, reason, 100.0 * index + 40.0, text)
    return run(index, failed_attempt(index), ended=end, **more)


def record(index: int = 1, epoch: int = 2) -> GroupRecord:
    return GroupRecord(RunId(TRAIN, index), epoch, NODES, 41000, "s", "f", 150.0, transport="ring-lan")
