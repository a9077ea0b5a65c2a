"""What became of generated bugs, as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.mutants.judging import KILLED, PASSED, Verdict
from tests.mutants.planting import ROOT
from tests.mutants.tiers import SIMULATOR

from .drawing import Generated

CAUGHT, SURVIVED, UNJUDGED = "caught", "SURVIVED", "NO VERDICT"
ROW = "{:>4}/{} {:>5}  {}  {}"
SHOWN_MAX = 5
"""So many of the tests that reached a survivor are named."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one bug."""

    bug: Generated
    verdict: Verdict
    reached: int
    """How many tests reach it."""
    tests: tuple[str, ...]
    """Those that were run against it, as far as none before them failed."""

    @property
    def end(self) -> str:
        """One of ``CAUGHT``, ``SURVIVED`` and ``UNJUDGED``. Tests that do not end, or cannot be begun, have caught it."""
        verdict = self.verdict
        if verdict.caught_by or verdict.ended != PASSED:
            return CAUGHT
        return UNJUDGED if verdict.problem else SURVIVED

    @property
    def by(self) -> str:
        """The test that caught it, or how."""
        if self.verdict.caught_by or self.verdict.ended == PASSED:
            return self.verdict.caught_by.removeprefix("tests/")
        return "the time limit" if self.verdict.ended == KILLED else "pytest cannot begin"

    @property
    def change(self) -> tuple[str, str]:
        """The lines that differ, before and after, each as one line; of a moved line only where it comes to stand."""
        lines = self.bug.mutant(()).shown(ROOT).splitlines()[2:]
        return tuple("; ".join(each[1:].strip() for each in lines if each[0] == sign) for sign in "-+")  # type: ignore[return-value]


def row(fate: Fate, number: int, of: int) -> str:
    """Return the line of progress for one bug."""
    by = f"{fate.end} {fate.by}".strip()
    return ROW.format(number, of, f"{fate.verdict.seconds:.0f} s", fate.bug.name, by)


def table(fates: Sequence[Fate]) -> str:
    """Return how many were caught by room and by rule, and each survivor with what is needed to judge it."""
    parts = [
        _sums("room", fates, lambda fate: fate.bug.room),
        _sums("rule", fates, lambda fate: fate.bug.rule),
        *(_survivor(fate) for fate in fates if fate.end == SURVIVED),
        *(f"{fate.bug.name}: no verdict: {fate.verdict.problem}" for fate in fates if fate.end == UNJUDGED),
        summary(fates),
    ]
    return "\n\n".join(parts)


def summary(fates: Sequence[Fate]) -> str:
    """Return the sums in a sentence."""
    ends = Counter(fate.end for fate in fates)
    judged = ends[CAUGHT] + ends[SURVIVED]
    simulated = sum(fate.verdict.tier == SIMULATOR for fate in fates)
    return (
        f"{ends[CAUGHT]} of {judged} caught ({percent(fates):.0f} %), {simulated} of them by the simulator alone; "
        f"{ends[UNJUDGED]} without a verdict"
    )


def percent(fates: Sequence[Fate]) -> float:
    """Return how many of a hundred that were judged are caught; 0 where none was."""
    ends = Counter(fate.end for fate in fates)
    return 100 * ends[CAUGHT] / max(1, ends[CAUGHT] + ends[SURVIVED])


def as_json(fates: Sequence[Fate], seconds: float) -> str:
    """Return every fate, and the sums; ``seconds`` are those of the whole run."""
    items = [
        {
            "name": fate.bug.name,
            "room": fate.bug.room,
            "rule": fate.bug.rule,
            "at": f"{fate.bug.file}:{fate.bug.lines[0]}",
            "before": fate.change[0],
            "after": fate.change[1],
            "end": fate.end,
            "caughtBy": fate.by or None,
            "tier": fate.verdict.tier or None,
            "reachedBy": fate.reached,
            "tests": fate.tests,
            "seconds": round(fate.verdict.seconds, 1),
            "cpuSeconds": round(fate.verdict.cpu_seconds, 2),
            "problem": fate.verdict.problem or None,
        }
        for fate in fates
    ]
    ends = Counter(fate.end for fate in fates)
    sums = {"planted": len(fates), "caught": ends[CAUGHT], "survived": ends[SURVIVED]}
    return json.dumps({"items": items, **sums, "seconds": round(seconds, 1)}, indent=2)


def _sums(title: str, fates: Sequence[Fate], key: Callable[[Fate], str]) -> str:
    lines = [
        f"| {title} | planted | caught | of these by the simulator alone | survived |",
        "|---|---|---|---|---|",
    ]
    for name in sorted({key(fate) for fate in fates}):
        own = [fate for fate in fates if key(fate) == name]
        ends = Counter(fate.end for fate in own)
        simulated = sum(fate.verdict.tier == SIMULATOR for fate in own)
        lines.append(f"| {name} | {len(own)} | {ends[CAUGHT]} | {simulated} | {ends[SURVIVED]} |")
    return "\n".join(lines)


def _survivor(fate: Fate) -> str:
    before, after = fate.change
    reached = f"{fate.reached} tests reach it, {len(fate.tests)} were run"
    return "\n".join(
        [
            f"{fate.bug.file}:{fate.bug.lines[-1]}: {fate.bug.name}",
            f"  - {before}",
            f"  + {after}",
            f"  {reached}{': ' if fate.tests else ''}{', '.join(fate.tests[:SHOWN_MAX])}",
        ]
    )
