"""``python -m tests.mutants``: plant each bug, and print which test catches it."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from . import catchers
from .groups import EVERY, GROUPS
from .judging import Verdict
from .mutant import Mutant
from .workers import Planting, Soundness, Workers

AT_A_TIME = 3
"""More than there are cores: tests that find a bug by waiting in vain take their whole time, and no core."""
CAUGHT_PERCENT_MIN = 90
SIMULATOR = ("tests/simulation",)
SIMULATED_ROOMS = (
    "planning",
    "state",
    "status",
    "execution",
    "store",
    "inventory",
    "controller",
    "agent",
    "incidents",
)
"""Whose code runs in the simulator."""
ROW = "{:<34} {:>4}  {}"


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 when too few are caught, or when nothing can be said of one."""
    wanted = _parsed(arguments)
    mutants = [m for m in GROUPS.get(wanted.group, EVERY) if wanted.only in m.name]
    if wanted.simulated:
        mutants = [replace(m, tests=SIMULATOR) for m in mutants if m.room in SIMULATED_ROOMS]
    if not mutants:
        print(f"error: no planted bug has {wanted.only!r} in its name; see tests/mutants/groups.py")
        return 2
    began = time.monotonic()
    shown = wanted.output == "table"
    if shown:
        print(ROW.format("PLANTED", "SEC", "CAUGHT BY"), flush=True)
    known = {} if wanted.simulated or wanted.all_mapped else catchers.known()
    verdicts, unsound = _judged(mutants, known, shown)
    problems = [*(verdict.problem for verdict in verdicts if verdict.problem), *unsound]
    for text in problems:
        print(text, file=sys.stderr)
    _print(wanted.output, verdicts, time.monotonic() - began)
    if wanted.remember:
        caught = {v.mutant.name: v.caught_by for v in verdicts if v.caught_by}
        catchers.remember(caught, frozenset(mutant.name for mutant in EVERY))
    enough = wanted.simulated or 100 * _caught(verdicts) >= CAUGHT_PERCENT_MIN * len(verdicts)
    return 0 if enough and not problems else 1


def _judged(mutants: Sequence[Mutant], known: dict[str, str], shown: bool) -> tuple[list[Verdict], list[str]]:
    """Every verdict, in the order of the bugs; and which of the tests that caught one fail without any as well."""
    found: dict[str, Verdict] = {}
    with Workers(AT_A_TIME) as workers:
        for verdict in workers.each(Planting(m, known.get(m.name, "")) for m in mutants):
            assert isinstance(verdict, Verdict)
            found[verdict.mutant.name] = verdict
            if shown:
                print(_row(verdict), flush=True)
        verdicts = [found[mutant.name] for mutant in mutants]
        by_file = defaultdict(set)
        for verdict in verdicts:
            if verdict.caught_by:
                by_file[verdict.caught_by.partition("::")[0]].add(verdict.caught_by)
        unsound = workers.each(Soundness(tuple(sorted(tests))) for tests in by_file.values())
        return verdicts, [text for text in unsound if isinstance(text, str) and text]


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", default="", help="those with this in their name")
    parser.add_argument(
        "--group", choices=(*GROUPS, "all"), default="healing", help="those of one catalogue, or all"
    )
    parser.add_argument(
        "--simulated",
        action="store_true",
        help="run the simulator's slice instead of the tests that map to each; any share may be caught",
    )
    parser.add_argument(
        "--all-mapped", action="store_true", help="not first the test that caught a bug the last time"
    )
    parser.add_argument("--remember", action="store_true", help="write tests/mutants/catchers.json anew")
    parser.add_argument("-o", "--output", choices=("table", "json", "markdown"), default="table")
    return parser.parse_args(arguments)


def _caught(verdicts: Sequence[Verdict]) -> int:
    return sum(bool(verdict.caught_by) for verdict in verdicts)


def _row(verdict: Verdict) -> str:
    by = verdict.caught_by.removeprefix("tests/") or ("NO VERDICT" if verdict.problem else "SURVIVED")
    return ROW.format(verdict.mutant.name, f"{verdict.seconds:.0f}", by)


def _print(output: str, verdicts: Sequence[Verdict], seconds: float) -> None:
    caught = _caught(verdicts)
    if output == "json":
        rows = [
            {
                "name": v.mutant.name,
                "room": v.mutant.room,
                "harm": v.mutant.harm,
                "caughtBy": v.caught_by or None,
                "seconds": round(v.seconds, 1),
                "cpuSeconds": round(v.cpu_seconds, 2),
                "problem": v.problem or None,
            }
            for v in verdicts
        ]
        total = {"planted": len(verdicts), "caught": caught, "seconds": round(seconds, 1)}
        print(json.dumps({"items": rows, **total}, indent=2))
    elif output == "markdown":
        print("| planted | room | what would go wrong | caught by |\n|---|---|---|---|")
        for v in verdicts:
            by = f"`{v.caught_by.removeprefix('tests/')}`" if v.caught_by else "**nothing**"
            print(f"| {v.mutant.name} | {v.mutant.room} | {v.mutant.harm} | {by} |")
    else:
        print(f"{caught} of {len(verdicts)} caught, in {seconds:.0f} s")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
