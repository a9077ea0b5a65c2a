"""Formats plain tables like kubectl's, and quantities for people."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from textwrap import wrap

from .colour import painted
from .streams import shown
from .typed import typed

WIDTH = 100
GAP = "   "
BELOW = "    "
"""Indent of a sentence below its row."""
CELL_WIDTH_MIN = 8
"""Smallest width of a column; a column that does not fit at this width is omitted."""
FOLD_WIDTH_MIN = 24
"""Sentences in narrower columns are cut instead of folded."""


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return left-aligned columns, cut with an ellipsis if a line would be longer than ``width``."""
    shown = [headers, *rows]
    return "\n".join(lines(shown, fitting(shown, width)))


def folded_table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return a table whose last column is folded into several lines instead of cut.

    If no width is left for it, it is in separate lines below each row.
    """
    shown = [headers, *([*row[:-1], typed(row[-1])] for row in rows)]
    width = width or terminal_width()
    widths = fitting(shown, width)
    if widths[-1] < min(FOLD_WIDTH_MIN, max(len(plain(row[-1])) for row in shown)):
        return "\n".join(_below(shown, width))
    return "\n".join(lines([line for row in shown for line in _folded(row, widths[-1])], widths))


def _below(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield a line for each row without its last cell, and below it that cell, folded and indented."""
    widths = fitting([row[:-1] for row in rows], width)
    for number, (line, row) in enumerate(zip(lines([row[:-1] for row in rows], widths), rows, strict=True)):
        yield line
        if number:
            yield from (f"{BELOW}{part}" for part in fold(row[-1], width - len(BELOW)))


def _folded(row: Sequence[str], width: int) -> Iterator[list[str]]:
    *cells, text = row
    for number, part in enumerate(fold(text, width)):
        yield [*([""] * len(cells) if number else cells), part]


def fold(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text in lines no longer than ``width``, at least one; those after the first begin with ``indent``."""
    return wrap(plain(typed(text)), width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def beside(label: str, text: str, width: int) -> Iterator[str]:
    """Yield a text in lines no longer than ``width``: the first behind a label, the others below its beginning."""
    for number, line in enumerate(fold(text, width - len(label))):
        yield f"{'' if number else label:<{len(label)}}{line}"


def page_width() -> int:
    """Return the terminal's width, 100 at most."""
    return min(terminal_width(), WIDTH)


def fitting(rows: Sequence[Sequence[str]], width: int | None = None) -> list[int]:
    """Return the widths of columns that fit into ``width`` together; 0 for an omitted one.

    The first column holds names and is never cut. The last one, a sentence for people, is cut first, then
    the widest; columns that still do not fit are omitted, from the right, the last column last.
    """
    width = width or terminal_width()
    natural = [max(len(plain(cell)) for cell in column) for column in zip(*rows, strict=True)]
    widths, last = list(natural), len(natural) - 1
    for column in sorted(range(1, last + 1), key=lambda column: (column != last, -natural[column])):
        room = max(0, widths[column] - CELL_WIDTH_MIN)
        widths[column] -= min(room, max(0, _excess(widths, width)))
    for column in sorted(range(1, last + 1), key=lambda column: (column == last, -column)):
        if _excess(widths, width) > 0:
            widths[column] = 0
    if last and widths[last]:  # the last column may use the width of omitted ones
        widths[last] = min(natural[last], widths[last] - _excess(widths, width))
    return widths


def _excess(widths: Sequence[int], width: int) -> int:
    shown = [size for size in widths if size]
    return sum(shown) + len(GAP) * (len(shown) - 1) - width


def lines(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Return rows as lines, in columns of these widths; a longer first cell is never cut."""
    return [GAP.join(_cells(row, widths)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    yield plain(row[0]).ljust(widths[0])
    for cell, size in zip(row[1:], widths[1:], strict=True):
        if size:
            text = clip(plain(cell), size)
            yield painted(text, cell) + " " * (size - len(text))


def grown(rows: Sequence[Sequence[str]], before: Sequence[int] = ()) -> list[int]:
    """Return widths for rows of a list that continues: no narrower than ``before``, the last column to the line's end.

    Later rows that need more room make a column wider, so that no cell is cut while there is room.
    """
    width = terminal_width()
    known = [["x" * size for size in [*before[:-1], 0]]] if before else []
    widths = fitting([*rows, *known], width)
    if widths[-1]:
        widths[-1] += max(0, -_excess(widths, width))
    return widths


def plain(text: str) -> str:
    """Return one line without control characters."""
    return text if text.isprintable() else " ".join(shown(text).split("\n")).replace("\t", " ").strip()


def clip(text: str, width: int) -> str:
    """Return a text no longer than ``width``, cut with an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"


def terminal_width() -> int:
    """Return the terminal's width, 100 without a terminal; a pipe gets complete lines unless COLUMNS is set."""
    wished = os.environ.get("COLUMNS", "")
    if sys.stdout.isatty() or (wished.isdecimal() and int(wished)):
        return shutil.get_terminal_size((WIDTH, 24)).columns
    return 10_000


def size(number: int | None) -> str:
    """Return bytes in the largest unit that leaves a number of at least one."""
    if not number:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f}{unit}" if unit == "B" else f"{number:.1f}{unit}"
        number /= 1024  # type: ignore[assignment]
    return f"{number:.1f}TiB"


def age(moment: str | None, now: datetime | None = None) -> str:
    """Return how long ago a time was, as kubectl writes it: `45s`, `5m10s`, `3h`, `2d`."""
    if not moment:
        return "-"
    seconds = max(0, int(((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 600:
        return f"{seconds // 60}m{seconds % 60}s"
    if seconds < 7200:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h" if seconds < 172_800 else f"{seconds // 86_400}d"


def ahead(moment: str | None, now: datetime | None = None) -> str:
    """Return in how long a time is, as ``age``."""
    return age((now or datetime.now(UTC)).isoformat(), datetime.fromisoformat(moment)) if moment else "-"


def duration(seconds: float) -> str:
    """Return a duration for people: `0.4s`, `12s`, `4m12s`, `3h5m`, `2d4h`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    total = int(seconds)
    if total < 60:
        return f"{total}s"
    parts = ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))
    size, unit, rest, small = next(part for part in parts if total >= part[0])
    return f"{total // size}{unit}{total % size // rest}{small}"
