"""``python -m tests.mutants --generated``: draw bugs, judge each, and list what survived."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tests.mutants.judging import Verdict
from tests.mutants.planting import ROOT
from tests.mutants.tiers import QUICK, REST, SIMULATOR
from tests.mutants.workers import Planting, Soundness, Workers

from . import report
from .drawing import Generated, drawn, every
from .kept import Kept
from .reaching import Reached, reached
from .recorder import ROOMS
from .report import SURVIVED, Fate

CAUGHT_PERCENT_MIN = 85
TIERS = (QUICK, SIMULATOR, REST)
EXAMPLES = "20"
"""As in ``make test``."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add what only generated bugs have."""
    parser.add_argument(
        "--generated", action="store_true", help="bugs that rules make, instead of a catalogue"
    )
    parser.add_argument("--sample", type=int, default=300, help="draw so many of the generated bugs")
    parser.add_argument("--seed", type=int, default=1, help="the same seed draws the same bugs")
    parser.add_argument(
        "--rooms", type=lambda text: text.split(","), default=ROOMS, help="draw from these: planning,store"
    )
    parser.add_argument("--tests", nargs="+", default=["tests"], help="what may catch a generated bug")


def run(wanted: argparse.Namespace) -> int:
    """The exit code: 1 when too few are caught, or when something can be said of none."""
    bugs = drawn(
        [bug for bug in every(rooms=wanted.rooms) if wanted.only in bug.name], wanted.sample, wanted.seed
    )
    if not bugs:
        print(f"error: no generated bug in {', '.join(wanted.rooms)} has {wanted.only!r} in its name")
        return 2
    if wanted.show:
        print("\n\n".join(f"{bug.name}\n{bug.mutant(()).shown(ROOT)}" for bug in bugs))
        return 0
    os.environ.setdefault("RECONCILER_EXAMPLES", EXAMPLES)
    began = time.monotonic()
    fates = _judged(bugs, reached(wanted.tests, wanted.at_a_time), wanted.at_a_time)
    seconds = time.monotonic() - began
    print(report.as_json(fates, seconds) if wanted.output == "json" else f"\n{report.table(fates)}")
    return 0 if report.percent(fates) >= CAUGHT_PERCENT_MIN else 1


def _judged(bugs: Sequence[Generated], tests: Reached, at_a_time: int) -> list[Fate]:
    """Every fate, in the order in which the bugs were drawn, with progress on standard error.

    One tier after the other, for what is left by the one before it: the quick ones judge all bugs first.
    """
    first = {bug.name: tuple(tests.chosen(bug)) for bug in bugs}
    rest = {bug.name: tuple(tests.rest(bug)) for bug in bugs}
    fates: dict[str, Fate] = {}
    kept = Kept(tests.key)
    with Workers(at_a_time, [bug.mutant(()) for bug in bugs]) as workers:
        for tier in TIERS:
            chosen = rest if tier == REST else first
            left = {bug.name: bug for bug in bugs if bug.name not in fates or fates[bug.name].end == SURVIVED}
            for number, verdict in enumerate(_verdicts(workers, kept, tier, left, tests, chosen), 1):
                bug = left[verdict.name]
                run = first[bug.name] + (rest[bug.name] if tier == REST else ())
                fates[bug.name] = fate = Fate(bug, verdict, len(tests.by(bug)), run)
                print(report.row(fate, number, len(left)), file=sys.stderr, flush=True)
        unsound = _unsound(workers, {fate.verdict.caught_by for fate in fates.values()} - {""})
    return [_believed(fates[bug.name], unsound) for bug in bugs]


def _verdicts(
    workers: Workers,
    kept: Kept,
    tier: str,
    names: Iterable[str],
    tests: Reached,
    chosen: Mapping[str, Sequence[str]],
) -> Iterator[Verdict]:
    """Yield what a tier says of each bug: first what it has said before, then what it is asked for."""
    known = {name: verdict for name in names if (verdict := kept.of(tier, name))}
    yield from known.values()
    left = [name for name in names if name not in known]
    asked = (
        Planting(name, "", (tier,), tests.took(chosen[name]), twice=True, tests=tuple(chosen[name]))
        for name in left
    )
    for found in workers.each(asked):
        assert isinstance(found, Verdict)
        kept.add(tier, found)
        yield found


def _unsound(workers: Workers, tests: Iterable[str]) -> dict[str, str]:
    """Return which of the tests fail without any bug as well, and what they say: first by files, then one by one."""
    by_file = defaultdict(list)
    for test in sorted(tests):
        by_file[test.partition("::")[0]].append(test)
    found = {}
    for own in by_file.values():
        if any(workers.each([Soundness(tuple(own))])):
            for test in own:
                found[test] = str(next(workers.each([Soundness((test,))])))
    return {test: text for test, text in found.items() if text}


def _believed(fate: Fate, unsound: dict[str, str]) -> Fate:
    problem = unsound.get(fate.verdict.caught_by, "")
    return replace(fate, verdict=replace(fate.verdict, caught_by="", problem=problem)) if problem else fate
