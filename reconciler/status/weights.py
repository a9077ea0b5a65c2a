"""The readiness of a Model: the nodes that have its weights, and the progress of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.state import Desired, Observed
from reconciler.state.machine.weights import failed, gigabytes, present, progress, running, slow
from reconciler.wire import objects
from reconciler.wire.node import ModelReport, NodeReport
from reconciler.wire.weights import FetchProblem

from . import examinations
from .snapshots import ConditionState, Readiness, Snapshots


def of_model(name: str, snapshots: Snapshots) -> Readiness:
    source = snapshots.desired.models[name].spec.source
    seen = source.folder, snapshots.desired, snapshots.observed
    found = of_hub(*seen) if source.huggingface else of_path(*seen)
    return found._replace(extra={**found.extra, **examinations.as_json(*seen)})


def of_path(path: str, desired: Desired, observed: Observed) -> Readiness:
    found = dict[str, str]()
    size = 0
    for node, seen in sorted(observed.nodes.items()):
        report = seen.model(path)
        if node in desired.nodes and report is not None and not report.examining:
            found[node] = report.problem or ("present" if report.present else "missing")
            size = max(size, report.weights_bytes)
    extra: objects.ModelFields = {"weightsBytes": size, "nodes": found}
    if not found:
        return Readiness(False, "NotLookedFor", "no node has checked the weights yet", extra)
    lacking = [node for node, state in found.items() if state != "present"]
    if lacking:
        text = f"not usable on {', '.join(lacking)}: {found[lacking[0]]}"
        return Readiness(False, "WeightsMissing", text, extra)
    reports = [seen.model(path) for node, seen in observed.nodes.items() if node in found]
    return Readiness(True, "WeightsPresent", f"present on {', '.join(found)}{_limits(reports)}", extra)


@dataclass(frozen=True, slots=True)
class _Stand:
    """The state of weights on one node."""

    reason: str
    text: str


WORST = (*FetchProblem.ALL, "FetchingSlowly", "Fetching", "NotFetched", "WeightsVerified")
"""Reasons; the first one that applies to a node is reported for the Model."""


def of_hub(path: str, desired: Desired, observed: Observed) -> Readiness:
    """Return the readiness of fetched weights: ready if a node has all of them verified, and none is fetching."""
    seen = {node: each.model(path) for node, each in sorted(observed.nodes.items()) if node in desired.nodes}
    stands = {node: _stand(report) for node, report in seen.items() if report is not None}
    size = max((report.weights_bytes for report in seen.values() if report is not None), default=0)
    extra: objects.ModelFields = {
        "weightsBytes": size,
        "nodes": {node: stand.text for node, stand in stands.items()},
    }
    verified = [node for node, stand in stands.items() if stand.reason == "WeightsVerified"]
    known = {node: stand for node, stand in stands.items() if stand.reason != "NotFetched"}
    if not known:
        return Readiness(False, "NotFetched", "no node has fetched the weights yet", extra)
    node, worst = min(known.items(), key=lambda entry: WORST.index(entry[1].reason))
    if worst.reason == "WeightsVerified":
        text = f"verified on {', '.join(verified)}{_limits(seen.values())}"
        return Readiness(True, "WeightsVerified", text, extra)
    return Readiness(False, worst.reason, f"{node}: {worst.text}", extra)


def _limits(reports: Iterable[ModelReport | None]) -> str:
    """Return notes if requests with tools are refused or every prompt is read again, with the reasons."""
    known = [report for report in reports if report is not None]
    note = next((report.note for report in known if report.note), "")
    tools = next((report.tools for report in known if report.tools), "")
    reread = next((report.reread for report in known if report.reread), "")
    notes = (
        note,
        f"requests with tools are refused: {tools}" if tools else "",
        f"every prompt is read anew: {reread}" if reread else "",
    )
    return "".join(f"; {each}" for each in notes if each)


def prompt_reuse(path: str, observed: Observed) -> str:
    """Return how the prefix cache of weights can be reused, with the reason if it cannot; ``unknown`` if no node's
    runtime has reported it."""
    report = observed.reusing.get(path)
    if report is None:
        return "unknown"
    return f"{report.reuse} ({report.reread})" if report.reread else report.reuse


def _stand(report: ModelReport) -> _Stand:
    fetch = None if present(report) else running(report)
    ended = failed(report)
    if present(report, in_full=False) and fetch is None and ended is None:
        lacking = len(report.lacking)
        part = f"verified, without the {lacking} weight file{'s' * (lacking > 1)} that its ranks do not need"
        return _Stand("WeightsVerified", report.problem or (part if lacking else "verified"))
    if fetch is not None:
        return _Stand("FetchingSlowly" if slow(fetch) else "Fetching", f"fetching, {progress(fetch)}")
    if ended is not None:
        return _Stand(ended.progress.problem, ended.progress.text)
    return _Stand("NotFetched", report.problem or "not fetched")


LOW_SHARE, LOW_BYTES = 0.05, 4 * 10**9
"""Fraction of the disk with a node's weights that must be free, for the next fetch and for the system."""


def disk_pressure(report: NodeReport | None) -> ConditionState:
    """Return whether the disk of a node's weights runs low, with the reason and the remedy."""
    if report is None or report.models_free_bytes is None or not report.models_total_bytes:
        return ConditionState("DiskPressure", False, "DiskUnknown", "")
    free, total = report.models_free_bytes, report.models_total_bytes
    if free >= min(LOW_BYTES, LOW_SHARE * total):
        return ConditionState("DiskPressure", False, "DiskHasRoom", "")
    fetched = sum(kept.size for kept in report.kept)
    text = f"{gigabytes(free)} of {gigabytes(total)} are free on the disk of its weights; fetched weights use {gigabytes(fetched)}"
    person = "free disk space there, or lower spec.keep of Models"
    return ConditionState("DiskPressure", True, "DiskLow", text, person)
