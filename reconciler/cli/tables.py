"""Plain tables as kubectl's, and quantities as people read them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

WIDTH = 100
GAP = "   "


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Left-aligned columns; the last one is cut where a line would be longer than ``width``."""
    width = width or terminal_width()
    columns = list(zip(headers, *rows, strict=True)) if rows else [(header,) for header in headers]
    widths = [max(len(cell) for cell in column) for column in columns]
    lines = [
        GAP.join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)) for row in (headers, *rows)
    ]
    return "\n".join(clip(line.rstrip(), width) for line in lines)


def clip(text: str, width: int) -> str:
    """A line no longer than ``width``; what is missing shows as an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"


def terminal_width() -> int:
    """The terminal's, and 100 where there is none; a pipe gets whole lines."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else 10_000


def size(number: int | None) -> str:
    """Bytes in the largest unit that leaves a number of one or more."""
    if not number:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f}{unit}" if unit == "B" else f"{number:.1f}{unit}"
        number /= 1024  # type: ignore[assignment]
    return f"{number:.1f}TiB"


def age(moment: str | None, now: datetime | None = None) -> str:
    """How long ago a time was, as kubectl writes it: `45s`, `5m10s`, `3h`, `2d`."""
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
