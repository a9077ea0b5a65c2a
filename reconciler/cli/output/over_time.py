"""Figures of the last hours as a table: one in each line, with a plot in one line."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.wire import answers

from .table_layout import size, table

HEADERS = ("OBJECT", "FIGURE", "LAST", "MEAN", "MOST", "OVER TIME")
BLOCKS = "▁▂▃▄▅▆▇█"


def over_time(series: Sequence[answers.Figures]) -> str:
    """Return a table of the series of ``wire.figures.ShowMetrics``."""
    return table(HEADERS, [_row(each) for each in series])


def _row(each: answers.Figures) -> list[str]:
    name, values = each["name"], each["values"]
    known = [value for value in values if value is not None]
    newest = [value for value in values[-2:] if value is not None]  # the last interval has just begun
    shown = (newest[-1] if newest else None, sum(known) / len(known), max(known))
    return [each["object"], name, *(_text(name, value) for value in shown), plot(values)]


def _text(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.endswith("Bytes"):
        return size(round(value))
    return f"{value:.3g}"


def plot(values: Sequence[float | None]) -> str:
    """Return a plot in one line, from 0 to the largest value; an unknown value is a blank."""
    most = max((value for value in values if value is not None), default=0) or 1
    last = len(BLOCKS) - 1
    return "".join(" " if value is None else BLOCKS[round(last * max(0, value) / most)] for value in values)
