"""The page of metrics: figures of deployments and machines over the last hours, and the events in that time."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire import answers

from .plots import Mark, Plot, Span, Table, marks, newest, nice, path, plot, span_of, table, values_of
from .quantities import number, seconds, size, watts

RANGES = (("1h", 3600), ("6h", 6 * 3600), ("24h", 24 * 3600))
"""Ranges of time: names as in addresses, and seconds."""
DEPLOYMENTS_MAX = 4
MACHINES_MAX = 24
"""Most machines with plots: with more, the page would be too large to read. The others have pages of their own."""
MARKS_MAX = 30
SPARK = 60
"""Intervals of a small plot in a line of text."""


@dataclass(frozen=True, slots=True)
class OfDeployment:
    name: str
    plots: tuple[Plot, ...]
    marks: tuple[Mark, ...]
    table: Table


@dataclass(frozen=True, slots=True)
class Cell:
    title: str
    path: str
    last: str


@dataclass(frozen=True, slots=True)
class OfMachine:
    name: str
    cells: tuple[Cell | None, ...]
    """Memory, load and power; None if nothing is known."""


@dataclass(frozen=True, slots=True)
class Metrics:
    chosen: str
    span: Span | None
    """None before the controller has answered."""
    deployments: tuple[OfDeployment, ...]
    machines: tuple[OfMachine, ...]
    more: int
    """Machines and deployments that have no plots here."""
    marks: tuple[Mark, ...]
    """Newest first."""


def metrics(snapshot: Snapshot, chosen: str) -> Metrics:
    """Return the page for a range of time; for an unknown name, the page of the first range."""
    chosen = chosen if chosen in dict(RANGES) else RANGES[0][0]
    answer = snapshot.metrics.get(chosen)
    if answer is None:
        return Metrics(chosen, None, (), (), 0, ())
    span = span_of(answer)
    deployments = [each["metadata"]["name"] for each in snapshot.deployments]
    nodes = [each["metadata"]["name"] for each in snapshot.nodes]
    more = max(0, len(deployments) - DEPLOYMENTS_MAX) + max(0, len(nodes) - MACHINES_MAX)
    return Metrics(
        chosen,
        span,
        tuple(_of_deployment(answer, span, name) for name in deployments[:DEPLOYMENTS_MAX]),
        tuple(_of_machine(answer, name) for name in nodes[:MACHINES_MAX]),
        more,
        tuple(reversed(marks(answer, span)))[:MARKS_MAX],
    )


def metrics_of(snapshot: Snapshot, name: str) -> OfDeployment | None:
    """Return a deployment over the last hour; None before the controller has answered."""
    answer = snapshot.metrics.get(RANGES[0][0])
    return None if answer is None else _of_deployment(answer, span_of(answer), name)


def spark(snapshot: Snapshot, of: str, name: str) -> str:
    """Return the path of a small plot of the last hour; empty if nothing is known."""
    answer = snapshot.metrics.get(RANGES[0][0])
    if answer is None:
        return ""
    values = values_of(answer, of, name)[-SPARK:]
    largest = max((value for value in values if value is not None), default=0.0)
    return path(values, nice(largest)) if largest else ""


def _of_deployment(answer: answers.Metrics, span: Span, name: str) -> OfDeployment:
    of = f"modeldeployment/{name}"

    def values(figure: str) -> tuple[float | None, ...]:
        return tuple(values_of(answer, of, figure))

    plots = (
        plot("Tokens/s", span, [("", values("tokensPerSecond"))], number),
        plot("Requests", span, [("running", values("running")), ("waiting", values("waiting"))], number),
        plot(
            "Time to first token",
            span,
            [("median", values("firstTokenP50")), ("p95", values("firstTokenP95"))],
            seconds,
        ),
        plot("Errors", span, [("", values("errors"))], number),
    )
    rows = (
        ("Tokens/s", values("tokensPerSecond"), number),
        ("Running", values("running"), number),
        ("Waiting", values("waiting"), number),
        ("First token, median", values("firstTokenP50"), seconds),
        ("First token, p95", values("firstTokenP95"), seconds),
        ("Errors", values("errors"), number),
    )
    return OfDeployment(
        name, tuple(each for each in plots if each is not None), marks(answer, span, of), table(span, rows)
    )


def _of_machine(answer: answers.Metrics, name: str) -> OfMachine:
    cells = []
    for title, figure, said in (
        ("Memory", "memoryUsedBytes", size),
        ("Load", "load", number),
        ("GPU power", "watts", watts),
    ):
        values = values_of(answer, f"node/{name}", figure)
        known = [value for value in values if value is not None]
        last = newest(values, said) or "not known"
        cells.append(Cell(title, path(values, nice(max(known))), last) if known else None)
    return OfMachine(name, tuple(cells))
