"""``python -m tests.mutants``: plant each bug, and print which test catches it."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

from .groups import EVERY, GROUPS
from .mutant import Mutant
from .planting import Verdict, interrupt, judge, sound

AT_A_TIME = 2
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
ROW = "{:<34} {:<10} {:<46} {:>5}"


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
        print(ROW.format("PLANTED", "ROOM", "CAUGHT BY", "SEC"), flush=True)
    verdicts, problems = _judged(mutants, shown)
    for text in problems:
        print(text, file=sys.stderr)
    _print(wanted.output, verdicts, time.monotonic() - began)
    enough = wanted.simulated or 100 * _caught(verdicts) >= CAUGHT_PERCENT_MIN * len(verdicts)
    return 0 if enough and not problems else 1


def _judged(mutants: Sequence[Mutant], shown: bool) -> tuple[list[Verdict], list[str]]:
    """Every verdict, and why nothing can be said where that is so."""
    pool = ThreadPoolExecutor(AT_A_TIME)
    try:
        unspoiled = pool.submit(sound, _all_tests(mutants))
        running = [pool.submit(judge, mutant) for mutant in mutants]
        for done in as_completed(running):
            if shown:
                print(_row(done.result()), flush=True)
        verdicts = [each.result() for each in running]
        problems = [*(verdict.problem for verdict in verdicts), unspoiled.result()]
        return verdicts, [text for text in problems if text]
    except BaseException:  # Ctrl-C as well: tests that go on would be nobody's
        pool.shutdown(wait=False, cancel_futures=True)
        interrupt()
        raise
    finally:
        pool.shutdown()


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", default="", help="those with this in their name")
    parser.add_argument("--group", choices=tuple(GROUPS), help="those of one catalogue; else all")
    parser.add_argument(
        "--simulated",
        action="store_true",
        help="run the simulator's slice instead of the tests that map to each; any share may be caught",
    )
    parser.add_argument("-o", "--output", choices=("table", "json", "markdown"), default="table")
    return parser.parse_args(arguments)


def _all_tests(mutants: Sequence[Mutant]) -> tuple[str, ...]:
    """Every test that is to catch one of them; a single test goes with its whole file where that is there too."""
    asked = {test for mutant in mutants for test in mutant.tests}
    return tuple(sorted(test for test in asked if test.partition("::")[0] not in asked - {test}))


def _caught(verdicts: Sequence[Verdict]) -> int:
    return sum(bool(verdict.caught_by) for verdict in verdicts)


def _row(verdict: Verdict) -> str:
    mutant = verdict.mutant
    test = verdict.caught_by.rpartition("::")[2].removeprefix("test_")
    by = test or ("NO VERDICT" if verdict.problem else "SURVIVED")
    by = by if len(by) <= 46 else by[:45] + "…"
    return ROW.format(mutant.name, mutant.room, by, f"{verdict.seconds:.0f}")


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
