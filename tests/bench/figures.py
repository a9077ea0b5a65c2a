"""What a benchmark finds, and how it is shown."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

WIDTH = 100


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    ours: float
    peer: float | str | None
    """Measured in the same run; a text where it is somebody else's published figure."""
    ratio: float | None
    """Ours to the peer's, the median over repetitions; None where no peer was measured."""
    spread: float
    """Interquartile range over repetitions: of the ratio, or of our figure where there is none."""
    unit: str
    aim: str = ""
    """What the ratio or the figure should be."""

    def line(self) -> str:
        """As one line of JSON."""
        body = asdict(self)
        del body["aim"]
        return json.dumps(body, ensure_ascii=False)


def paired(name: str, unit: str, ours: Sequence[float], peer: Sequence[float], aim: str = "") -> Figure:
    """Of pairs that were measured one right after the other: ``ours[i]`` beside ``peer[i]``.

    A peer too cheap for the clock that counts it (0) has no ratio.
    """
    ratios = [mine / other for mine, other in zip(ours, peer, strict=True) if other]
    return Figure(
        name,
        statistics.median(ours),
        statistics.median(peer),
        statistics.median(ratios) if ratios else None,
        interquartile(ratios),
        unit,
        aim,
    )


def alone(name: str, unit: str, ours: Sequence[float], aim: str = "", peer: str | None = None) -> Figure:
    """Of repetitions without a peer at their side."""
    return Figure(name, statistics.median(ours), peer, None, interquartile(ours), unit, aim)


def interquartile(values: Sequence[float]) -> float:
    """The distance between the quartiles; of a single value none is known, and it is 0."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


def interleaved(
    times: int, ours: Callable[[], float], peer: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Ours, peer, ours, peer, ...: what else the machine does hurts both alike."""
    pairs = [(ours(), peer()) for _ in range(times)]
    return [mine for mine, _ in pairs], [other for _, other in pairs]


HEADINGS = ("benchmark", "ours", "peer", "ratio", "spread", "unit", "aim")
WIDTHS = (36, 9, 15, 7, 7, 9, 9)


def table(figures: Iterable[Figure]) -> Iterator[str]:
    """Lines of at most ``WIDTH`` characters."""
    yield _row(HEADINGS)
    for figure in figures:
        yield _row(
            (
                figure.name,
                number(figure.ours),
                figure.peer if isinstance(figure.peer, str) else number(figure.peer),
                number(figure.ratio),
                number(figure.spread),
                figure.unit,
                figure.aim,
            )
        )


def _row(cells: Sequence[str]) -> str:
    return " ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()[:WIDTH]


def number(value: float | None) -> str:
    """Three digits that count; a dash for nothing."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
