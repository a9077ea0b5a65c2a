"""The fingerprint of a job: what begins a run again, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.resources.job import JobSpec
from reconciler.state.job_fingerprint import RUN, fingerprint
from tests.worlds import job


@pytest.mark.parametrize(
    "spec",
    [
        {"program": {"script": {"command": ["python", "other.py"]}}},
        {"program": {"mpi": {"command": ["./xhpl"]}}},
        {"nodes": 2},
        {"transport": ["ring"]},
        {"memory": "8GiB"},
        {"env": {"LEVEL": "1"}},
        {"secrets": {"KEY": {"env": "KEY"}}},
        {"files": ["jobs/train.py"]},
        {"files": [{"path": "jobs/train.py", "data": "Zm9v"}]},
        {"artifacts": ["out"]},
        {"limits": {"disk": "1GiB"}},
        {"restartedAt": "2026-11-21T10:00:00Z"},
    ],
)
def test_what_a_run_does_is_part_of_it(spec: dict[str, Any]) -> None:
    assert fingerprint(job(**spec)) != fingerprint(job())


def test_the_content_of_a_file_is_part_of_it() -> None:
    first, second = (job(files=[{"path": "a.py", "data": data}]) for data in ("Zm9v", "YmFy"))
    assert fingerprint(first) != fingerprint(second)


@pytest.mark.parametrize(
    "spec",
    [
        {"suspend": True},
        {"priority": 5},
        {"preempt": True},
        {"activeDeadline": "1h"},
        {"gracePeriod": "1m"},
        {"backoffLimit": 0},
        {"failOnExitCodes": [3]},
        {"ttlAfterFinished": "1h"},
        {"cancelledRun": 3},
        {"placement": {"nodeSelector": {"pool": "a"}}},
        {"manifestPath": "jobs/train.yaml"},
        {"schedule": "0 8 * * *"},
        {"limits": {"disk": "10GiB"}},
        {"memory": None},
    ],
)
def test_other_fields_and_written_defaults_are_not(spec: dict[str, Any]) -> None:
    assert fingerprint(job(**spec)) == fingerprint(job())


def test_it_is_16_digits_and_stays_the_same_from_version_to_version() -> None:
    assert fingerprint(job(env={"B": "2", "A": "1"}, memory="1024MiB")) == fingerprint(
        job(env={"A": "1", "B": "2"}, memory="1GiB")
    )
    assert fingerprint(job()) == "fae96e613e54a60b"


def test_every_field_that_counts_is_a_field() -> None:
    assert set(JobSpec.model_fields) >= RUN
