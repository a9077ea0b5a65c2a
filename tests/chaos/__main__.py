"""``make chaos MINUTES=10``: four emulated Mac Studios under load, broken at random. Exits with 1 where anything that
must hold does not."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from .course import Chaos
from .verdict import broken, summary, table

SEEDS = 10_000


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long it is broken")
    parser.add_argument("--seed", type=int, help="play the same faults as that seed did")
    parser.add_argument(
        "--timeline", type=Path, help="write what happened and what was told, in order, to this file"
    )
    wanted = parser.parse_args()
    seed = random.randrange(SEEDS) if wanted.seed is None else wanted.seed
    print(
        f"chaos: {wanted.minutes:g} minutes; again: make chaos MINUTES={wanted.minutes:g} SEED={seed}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        chaos = Chaos(Path(folder), wanted.minutes, seed, _progress)
        try:
            run = chaos.run()
        finally:
            if wanted.timeline:
                wanted.timeline.write_text("\n".join(chaos.timeline()) + "\n")
    print("\n".join(table(run)))
    print("\n".join(summary(run)))
    wrong = list(broken(run))
    for sentence in wrong:
        print(f"DOES NOT HOLD: {sentence}")
    print("everything that must hold does" if not wrong else f"{len(wrong)} things do not hold")
    return 1 if wrong else 0


def _progress(line: str) -> None:
    with suppress(BrokenPipeError):
        print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
