"""``make soak HOURS=2``: conversations of 16 agents on two ranks. Exits with 1 where anything that must hold does not."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from .course import Soak
from .verdict import broken, summary, table


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0, help="how long the agents talk")
    parser.add_argument("--minutes", type=float, help="the same, for a short time")
    parser.add_argument("--seed", type=int, default=1, help="another number makes them say other things")
    parser.add_argument(
        "--busy", type=float, default=0.4, help="the part of the cores that the cluster is to use"
    )
    wanted = parser.parse_args()
    minutes = wanted.minutes or 60 * wanted.hours
    print(f"soak: {minutes:g} minutes, seed {wanted.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        run = Soak(minutes, wanted.seed, wanted.busy, _progress).run(Path(folder))
    print("\n".join([*table(run), *summary(run)]))
    wrong = list(broken(run))
    for sentence in wrong:
        print(f"DOES NOT HOLD: {sentence}")
    print("everything that must hold does" if not wrong else f"{len(wrong)} things do not hold")
    return 1 if wrong else 0


def _progress(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
