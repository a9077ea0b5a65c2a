"""What became of the planted bugs, as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.mutants.bugs.reasons import NOT_IN_FIRST_TIER

from .judging import Verdict
from .mutant import Mutant
from .tiers import FIRST, TIERS

ROW = "{:<34} {:>4}  {}"


def caught(verdicts: Sequence[Verdict]) -> int:
    """Count the bugs that a test has caught."""
    return sum(bool(verdict.caught_by) for verdict in verdicts)


def row(verdict: Verdict) -> str:
    """Return the line for one bug."""
    by = _by(verdict) or ("NO VERDICT" if verdict.problem else "SURVIVED")
    return ROW.format(verdict.name, f"{verdict.seconds:.0f}", by)


def as_json(mutants: Sequence[Mutant], verdicts: Sequence[Verdict], seconds: float) -> str:
    """Return every verdict with its bug, and the sums; ``seconds`` are those of the whole run."""
    rows = [
        {
            "name": mutant.name,
            "room": mutant.room,
            "harm": mutant.harm,
            "caughtBy": verdict.caught_by or None,
            "tier": verdict.tier or None,
            "seconds": round(verdict.seconds, 1),
            "cpuSeconds": round(verdict.cpu_seconds, 2),
            "problem": verdict.problem or None,
        }
        for mutant, verdict in zip(mutants, verdicts, strict=True)
    ]
    total = {"planted": len(verdicts), "caught": caught(verdicts), "seconds": round(seconds, 1)}
    return json.dumps({"items": rows, **total}, indent=2)


def as_markdown(groups: Mapping[str, Sequence[Mutant]], verdicts: Sequence[Verdict]) -> str:
    """Return the table of docs/testing.md, and which bugs the first tier does not catch, with the reasons."""
    found = {verdict.name: verdict for verdict in verdicts}
    lines = ["| group | planted | first tier | second tier | simulator | none |", "|---|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for group, mutants in groups.items():
        tiers = Counter(found[mutant.name].tier for mutant in mutants if mutant.name in found)
        total += tiers
        if tiers:
            lines.append(_counts(group, tiers))
    lines += [_counts("all", total), ""]
    lines += ["| not caught by the first tier | caught by | reason |", "|---|---|---|"]
    for verdict in verdicts:
        if verdict.tier != FIRST:
            by = f"`{_by(verdict)}`" if verdict.caught_by else "nothing"
            lines.append(f"| {verdict.name} | {by} | {NOT_IN_FIRST_TIER.get(verdict.name, '')} |")
    return "\n".join(lines)


def _counts(name: str, tiers: Counter[str]) -> str:
    numbers = " | ".join(str(tiers[tier]) for tier in (*TIERS, ""))
    return f"| {name} | {tiers.total()} | {numbers} |"


def _by(verdict: Verdict) -> str:
    return verdict.caught_by.removeprefix("tests/")
