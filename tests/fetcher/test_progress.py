"""The rate of a fetch counts the bytes that came, whatever was there before."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from reconciler.fetcher import progress
from reconciler.fetcher.progress import ProgressReport
from reconciler.wire.codec import from_wire
from reconciler.wire.weights import FetchPhase, Progress

TOTAL = 400 * 10**9
BYTES, SECONDS = 4_000_000, 2.0


def resumed(report: ProgressReport) -> None:
    """Most of the second file is there from an earlier fetch."""
    report.begin(FetchPhase.FETCHING, TOTAL, 0, "first")
    report.begin(FetchPhase.FETCHING, TOTAL, TOTAL // 2, "second")


def repeated(report: ProgressReport) -> None:
    """A file was damaged, and is fetched again."""
    report.begin(FetchPhase.FETCHING, TOTAL, TOTAL // 2, "first")
    report.add(-(TOTAL // 4))


def verified(report: ProgressReport) -> None:
    """All files were read a moment ago, and one of them has to be fetched."""
    report.begin(FetchPhase.VERIFYING, TOTAL)
    report.add(TOTAL)
    report.begin(FetchPhase.FETCHING, TOTAL, TOTAL // 2, "first")


@pytest.mark.parametrize("before", [resumed, repeated, verified])
def test_bytes_that_did_not_come_are_not_in_the_rate(
    before: Callable[[ProgressReport], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    out, writing = os.pipe()
    report = ProgressReport(writing)
    before(report)
    now += SECONDS
    report.add(BYTES)
    os.close(writing)
    with os.fdopen(out) as lines:
        updates = [from_wire(Progress, json.loads(line)) for line in lines]

    assert updates[-1].rate == BYTES / SECONDS
    assert updates[-1].done_bytes == TOTAL // (4 if before is repeated else 2) + BYTES
