"""Results of the examinations of a Model's weights by nodes' runtimes, and the share of each rank."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from reconciler.resources.operation import written_moment
from reconciler.state import Desired, NodeName, Observed
from reconciler.wire import objects
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import FailedExamination

from .snapshots import ConditionState, Snapshots

TYPE = "ExaminationFailed"
"""The type of the condition, which is true where a node's runtime was asked and gave no answer."""


def conditions(name: str, snapshots: Snapshots) -> tuple[ConditionState, ...]:
    model = snapshots.desired.models.get(name)
    if model is None:
        return ()
    path = model.spec.source.folder
    failures = failed(path, snapshots.desired, snapshots.observed)
    if not failures:
        return (ConditionState(TYPE, False, "NoneFailed", ""),)
    text = "; ".join(f"{node}: {_attempts(each)}" for node, each in failures.items())
    return (ConditionState(TYPE, True, TYPE, f"{text}; {_consequence(path, snapshots)}"),)


def failed(path: str, desired: Desired, observed: Observed) -> dict[NodeName, FailedExamination]:
    """Return the failed examinations of weights, by node in the order of names."""
    return {
        node: report.examination
        for node, report in _reports(path, desired, observed)
        if report.examination is not None
    }


def as_json(path: str, desired: Desired, observed: Observed) -> objects.ModelFields:
    """Return the status fields: how it is known what ranks need, and the failed examinations."""
    reports = [report for _, report in _reports(path, desired, observed) if report.present]
    told = [share for report in reports for shares in report.shares.values() for share in shares]
    basis = "unknown"
    if reports and not any(report.examining for report in reports):
        basis = "guessed"
    if told:
        basis = "guessed" if any(share.cache is None for share in told) else "computed"
    return {
        "memory": basis,
        "failedExaminations": {
            node: {
                "reason": each.text,
                "attempts": each.attempts,
                "since": written_moment(int(each.since)),
                "again": written_moment(int(each.again)),
            }
            for node, each in failed(path, desired, observed).items()
        },
    }


def _reports(path: str, desired: Desired, observed: Observed) -> Iterator[tuple[NodeName, ModelReport]]:
    for node, seen in sorted(observed.nodes.items()):
        report = seen.model(path)
        if node in desired.nodes and report is not None:
            yield node, report


def _attempts(failure: FailedExamination) -> str:
    again = f"the next one is at {_clock(failure.again)}"
    if failure.attempts == 1:
        return f"the examination of its weights failed at {_clock(failure.since)}: {failure.text}; {again}"
    count = f"{failure.attempts} times since {_clock(failure.since)}"
    return f"the examination of its weights has failed {count}, the last time: {failure.text}; {again}"


def _consequence(path: str, snapshots: Snapshots) -> str:
    told = [
        node
        for node, report in _reports(path, snapshots.desired, snapshots.observed)
        if report.shares and report.examination is None
    ]
    if told:
        return f"what its ranks need is known from {told[0]}"
    return "what its ranks need is guessed until then"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")
