"""Figures over time as lines of a picture, and as words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reconciler.wire import answers

HEIGHT = 100
"""Height of a plot, in its own units; an interval is ``STEP`` wide, and the page stretches both."""
STEP = 10
COLUMNS = 24
"""Parts of a plot that show their values when somebody points at them."""
ROWS = 12
"""Rows of the table with the same figures."""
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    path: str
    """As in SVG, with gaps where nothing is known."""
    last: str
    """The newest value; empty if not known."""


@dataclass(frozen=True, slots=True)
class Column:
    """A part of a plot to point at."""

    x: int
    width: int
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    kind: str
    """``group`` or ``incident``."""
    text: str
    time: str
    object: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture of figures on one scale, from 0 up."""

    title: str
    width: int
    height: int
    top: str
    """The value at its upper edge."""
    lines: tuple[Line, ...]
    columns: tuple[Column, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class Table:
    """The same figures in rows, for people who would rather read."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The first cell of each is the time at which its interval begins."""


@dataclass(frozen=True, slots=True)
class Span:
    begins: datetime
    seconds: int
    count: int

    @property
    def width(self) -> int:
        """Return the width of its plots."""
        return max(1, self.count - 1) * STEP

    @property
    def ends(self) -> datetime:
        return self.begins + timedelta(seconds=self.seconds * self.count)

    def moment(self, index: int) -> datetime:
        """Return when an interval begins."""
        return self.begins + timedelta(seconds=self.seconds * index)

    def parts(self, most: int) -> Iterator[range]:
        """Yield the intervals in at most ``most`` parts."""
        size = -(-self.count // most)
        for begin in range(0, self.count, size):
            yield range(begin, min(begin + size, self.count))


def span_of(answer: answers.Metrics) -> Span:
    """Return the time of an answer to ``wire.admin.ShowMetrics``."""
    return Span(datetime.fromisoformat(answer["begins"]), answer["seconds"], answer["count"])


def values_of(answer: answers.Metrics, of: str, name: str) -> Values:
    """Return the figures of an object; empty if it has none."""
    for each in answer["series"]:
        if each["object"] == of and each["name"] == name:
            return each["values"]
    return ()


def path(values: Values, most: float) -> str:
    """Return a line from interval to interval; a value without neighbours is a short line. ``most``: the upper edge."""
    drawn, pen = [], False
    for index, value in enumerate(values):
        if value is None:
            pen = False
            continue
        y = round(HEIGHT * (1 - min(1.0, max(0.0, value) / most)))
        alone = not pen and (index + 1 == len(values) or values[index + 1] is None)
        drawn.append(f"{' ' if pen else 'M'}{index * STEP} {y}" + ("h2" if alone else ""))
        pen = not alone
    return "".join(drawn)


def plot(
    title: str, span: Span, found: Sequence[tuple[str, Values]], said: Callable[[float], str]
) -> Plot | None:
    """Return a plot of some figures, by their names; None if none is known. ``said`` writes a value for people."""
    known = [(name, values) for name, values in found if any(value is not None for value in values)]
    if not known:
        return None
    largest = max(value for _, values in known for value in values if value is not None)
    most = nice(largest)
    lines = tuple(Line(name, path(values, most), newest(values, said)) for name, values in known)
    now = ", ".join(f"{line.name or title} {line.last or 'not known'} now" for line in lines)
    return Plot(
        title=title,
        width=span.width,
        height=HEIGHT,
        top=said(most),
        lines=lines,
        columns=tuple(_columns(span, known, said)),
        summary=f"{title}: {now}, at most {said(largest)}",
    )


def table(span: Span, found: Sequence[tuple[str, Values, Callable[[float], str]]]) -> Table:
    """Return figures in rows; each row has the means of some intervals."""
    known = [each for each in found if any(value is not None for value in each[1])]
    rows = tuple(
        (_clock(span.moment(part.start)), *(_mean(values, part, said) for _, values, said in known))
        for part in span.parts(ROWS)
    )
    return Table(("Time (UTC)", *(name for name, _, _ in known)), rows)


def marks(answer: answers.Metrics, span: Span, of: str = "") -> tuple[Mark, ...]:
    """Return the events of an object, or of all, in this time; an event in the last interval is at the right edge, like the
    interval."""
    total = span.seconds * max(1, span.count - 1)
    found = []
    for each in answer["marks"]:
        if of in ("", each["object"]):
            after = (datetime.fromisoformat(each["time"]) - span.begins).total_seconds()
            x = min(float(span.width), round(span.width * after / total, 1))
            found.append(Mark(x, each["kind"], each["text"], each["time"], each["object"]))
    return tuple(found)


def nice(largest: float) -> float:
    """Return a round number for the upper edge of a plot, at least ``largest``."""
    if largest <= 0:
        return 1.0
    unit = 10.0 ** len(str(int(largest))) if largest >= 1 else 1.0
    while unit / 10 >= largest:
        unit /= 10
    return next(
        unit * part for part in (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0) if unit * part >= largest
    )


def _columns(
    span: Span, known: Sequence[tuple[str, Values]], said: Callable[[float], str]
) -> Iterator[Column]:
    for part in span.parts(COLUMNS):
        texts = [f"{name} {_mean(values, part, said)}".strip() for name, values in known]
        yield Column(
            part.start * STEP, len(part) * STEP, f"{_clock(span.moment(part.start))} UTC: {', '.join(texts)}"
        )


def _mean(values: Values, part: range, said: Callable[[float], str]) -> str:
    known = [value for index in part if index < len(values) and (value := values[index]) is not None]
    return said(sum(known) / len(known)) if known else "–"


def newest(values: Values, said: Callable[[float], str]) -> str:
    """Return the newest value of the last two intervals: the last one may just have begun."""
    known = [value for value in values[-2:] if value is not None]
    return said(known[-1]) if known else ""


def _clock(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%H:%M")
