"""The table of a rehearsal: for a terminal, for a comment, and as data. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.cli.output.table_layout import clip

from .course import Step

SAID_MAX = 3
SAID_CHARACTERS = 400
STEP_CHARACTERS = 28
CAVEAT = "emulated Macs: a success says nothing about the memory and speed of yours"


@dataclass(frozen=True, slots=True)
class Report:
    passed: bool
    steps: Sequence[Step]
    notes: Sequence[str]
    pushed: str

    def plain(self) -> dict[str, Any]:
        steps = [step.plain() for step in self.steps]
        return {"passed": self.passed, "steps": steps, "notes": [CAVEAT, *self.notes], "pushed": self.pushed}


HEAD = ("step", "result", "seen after", "served after", "not served", "requests", "slowest")


def _row(step: Step) -> tuple[str, ...]:
    unserved = max(step.unserved.values(), default=0.0)
    failed = f", {step.failed} failed" if step.failed else ""
    return (
        step.name,
        "ok" if step.ok else "FAILED",
        _seconds(step.seen_after),
        _seconds(step.served_after),
        _seconds(unserved) if unserved else "-",
        f"{step.requests}{failed}" if step.requests else "-",
        _seconds(step.longest) if step.requests else "-",
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def table(report: Report) -> str:
    """Return it for a terminal, at most 100 columns wide; notes are below."""
    rows = [tuple(name.upper() for name in HEAD), *(_row(step) for step in report.steps)]
    rows = [(clip(row[0], STEP_CHARACTERS), *row[1:]) for row in rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    for step in report.steps:
        lines += [f"{step.name}: {clip(text, SAID_CHARACTERS)}" for text in step.said[:SAID_MAX]]
    lines += [f"note: {note}" for note in (CAVEAT, *report.notes)]
    lines.append("every step ended as it should" if report.passed else "not every step ended as it should")
    return "\n".join(lines)


def markdown(report: Report) -> str:
    """Return it for a comment on a pull request."""
    lines = [f"| {' | '.join(HEAD)} | said |", f"|{'---|' * (len(HEAD) + 1)}"]
    for step in report.steps:
        said = "<br>".join(escaped(clip(text, SAID_CHARACTERS)) for text in step.said[:SAID_MAX])
        lines.append(f"| {' | '.join(map(escaped, _row(step)))} | {said} |")
    lines += ["", *(f"- {escaped(note)}" for note in (CAVEAT, *report.notes))]
    return "\n".join(lines)


_ESCAPES = str.maketrans(
    {mark: f"&#{ord(mark)};" for mark in "<>@&"} | {mark: f"\\{mark}" for mark in "\\`*_[]|#~"}
)


def escaped(text: str) -> str:
    """Return a text so that a cell of a table shows it unchanged: anybody may have chosen its words."""
    return " ".join(text.split()).translate(_ESCAPES)
