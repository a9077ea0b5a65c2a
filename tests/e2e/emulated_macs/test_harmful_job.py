"""A job that makes Macs panic is stopped: after two panics it is not tried again, and nobody else is blamed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.sandbox.cluster import FILE
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.test_jobs import apply, job, run_of

from .macs import incidents, sandbox, unpacked

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(900)]

STARTED_SECONDS, BACK_SECONDS = 240.0, 240.0
ALLOWED = 'spec:\n  jobs: {allow: {paths: ["jobs/*"]}}\n'


@pytest.fixture
def macs() -> Iterator[Cluster]:
    with cluster() as made, unpacked(made, "--nodes", "2") as manifests:
        text = (manifests / FILE).read_text()
        nodes, count = re.subn(r"(kind: Node\n(?:.*\n)*?)spec:\n", rf"\1{ALLOWED}", text)
        assert count == 2
        (manifests / FILE).write_text(nodes)
        made.start("-f", str(manifests), "--any-port")
        yield made


def runs_on_both(made: Cluster, attempt: int) -> bool:
    ready = [row for row in made.ranks() if row["phase"] == "ready" and row["epoch"] == attempt]
    return len(ready) == 2


def ended(made: Cluster, attempt: int) -> bool:
    found: Any = run_of(made, "hot")["attempts"]
    return bool(found[attempt - 1]["end"] == "NodeLost")


def test_a_job_that_makes_machines_panic_twice_has_caused_it_and_does_not_run_again(
    macs: Cluster, tmp_path: Path
) -> None:
    program = "{script: {command: [sleep, '4712']}}"
    apply(macs, tmp_path, {"jobs/hot.yaml": job("hot", program=program)})
    for attempt in (1, 2):
        macs.wait("both ranks", partial(runs_on_both, macs, attempt), STARTED_SECONDS)
        sandbox(macs, "panic", "studio-2", "5")
        macs.wait("the end of the attempt", partial(ended, macs, attempt), BACK_SECONDS)
    macs.wait("the end of the run", lambda: run_of(macs, "hot")["state"] == "Failed")
    assert run_of(macs, "hot")["reason"] == "CausedNodeLoss"
    macs.wait_settled()
    assert not [row for row in macs.ranks() if row["phase"] != "exited"]
    (found,) = [each for each in incidents(macs) if each["object"] == "job/hot"]
    assert found["class"] == "CausedNodeLoss"
    assert found["open"]
