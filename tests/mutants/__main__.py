"""``python -m tests.mutants``: plant each bug, and print which test catches it."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence

from tests.mutants.bugs.groups import EVERY, GROUPS

from . import catchers, printing
from .generated import command
from .judging import Verdict
from .mutant import Mutant
from .planting import ROOT
from .tiers import FIRST, SECOND, SIMULATED_ROOMS, SIMULATOR, TIERS
from .workers import Planting, Soundness, Workers

AT_A_TIME = 3
"""More than there are cores: tests that find a bug by waiting in vain take their whole time, and no core."""
CAUGHT_PERCENT_MIN = 90
CHOICES = {
    FIRST: (FIRST,),
    SECOND: (SECOND,),
    "mapped": (FIRST, SECOND),
    SIMULATOR: (SIMULATOR,),
    "all": TIERS,
}


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 when too few are caught, or when nothing can be said of one."""
    wanted = _parsed(arguments)
    if wanted.generated:
        return command.run(wanted)
    tiers = CHOICES[SIMULATOR if wanted.simulated else wanted.tier]
    mutants = [m for m in GROUPS.get(wanted.group, EVERY) if wanted.only in m.name]
    if tiers == (SIMULATOR,):
        mutants = [m for m in mutants if m.room in SIMULATED_ROOMS]
    if not mutants:
        print(f"error: no planted bug has {wanted.only!r} in its name; see tests/mutants/bugs/groups.py")
        return 2
    if wanted.show:
        print("\n\n".join(f"{mutant.name}: {mutant.harm}\n{mutant.shown(ROOT)}" for mutant in mutants))
        return 0
    began = time.monotonic()
    shown = wanted.output == "table"
    if shown:
        print(printing.ROW.format("PLANTED", "SEC", "CAUGHT BY"), flush=True)
    known = {} if SIMULATOR in tiers[:1] or wanted.all_mapped else catchers.known()
    verdicts, unsound = _judged(mutants, known, tiers, shown, wanted.at_a_time)
    problems = [*(verdict.problem for verdict in verdicts if verdict.problem), *unsound]
    for text in problems:
        print(text, file=sys.stderr)
    seconds = time.monotonic() - began
    if wanted.output == "json":
        print(printing.as_json(mutants, verdicts, seconds))
    elif wanted.output == "markdown":
        print(printing.as_markdown(GROUPS, verdicts))
    else:
        print(f"{printing.caught(verdicts)} of {len(verdicts)} caught, in {seconds:.0f} s")
    if wanted.remember:
        caught = {v.name: v.caught_by for v in verdicts if v.caught_by and v.tier != SIMULATOR}
        catchers.remember(caught, frozenset(mutant.name for mutant in EVERY))
    enough = tiers == (SIMULATOR,) or 100 * printing.caught(verdicts) >= CAUGHT_PERCENT_MIN * len(verdicts)
    return 0 if enough and not problems else 1


def _judged(
    mutants: Sequence[Mutant], known: dict[str, str], tiers: tuple[str, ...], shown: bool, at_a_time: int
) -> tuple[list[Verdict], list[str]]:
    """Every verdict, in the order of the bugs; and which of the tests that caught one fail without any as well."""
    found: dict[str, Verdict] = {}
    with Workers(at_a_time, mutants) as workers:
        for verdict in workers.each(Planting(m.name, known.get(m.name, ""), tiers) for m in mutants):
            assert isinstance(verdict, Verdict)
            found[verdict.name] = verdict
            if shown:
                print(printing.row(verdict), flush=True)
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
        "--tier",
        choices=tuple(CHOICES),
        default="mapped",
        help="the tests that map to each bug and belong to this tier; mapped: to the first or the second; "
        "all: the first tier, then the second, then the simulator, until one catches it",
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
    parser.add_argument("--at-a-time", type=int, default=AT_A_TIME, help="judge so many bugs at a time")
    parser.add_argument("--show", action="store_true", help="print what each bug changes, and run nothing")
    command.options(parser)
    parser.add_argument("-o", "--output", choices=("table", "json", "markdown"), default="table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
