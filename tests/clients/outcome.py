"""What a client showed, and the table of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .rows import Client
from .scripts import FEATURES

HEADINGS: Mapping[str, str] = {
    "text": "text",
    "stream": "stream",
    "tools": "tool loop",
    "typed": "typed answer",
    "refused": "refused parameter",
    "helpers": "helpers",
    "retry": "retry after 503",
    "killed": "killed rank",
    "history": "goes on",
}
"""A feature's column."""


@dataclass
class Outcome:
    """One client's run."""

    client: Client
    features: dict[str, str] = field(default_factory=dict)
    """By feature: empty where it showed what it is to show, else what was wrong."""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not any(self.features.values())


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines of the table: ``ok``, ``FAILS``, or ``-`` for what a client does not have."""
    rows = [["client", "version", "surface", *HEADINGS.values(), "seconds"]]
    for each in outcomes:
        marks = [
            "-" if (why := each.features.get(name)) is None else "FAILS" if why else "ok" for name in HEADINGS
        ]
        rows.append(
            [each.client.name, each.client.version, each.client.surface, *marks, f"{each.seconds:.1f}"]
        )
    return lined(rows)


def lined(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with columns as wide as they have to be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


assert set(FEATURES) < set(HEADINGS)
