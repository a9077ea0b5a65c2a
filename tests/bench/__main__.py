"""``make bench``: run the benchmarks, print a line of JSON for each figure, and a table at the end."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from .figures import Figure, table

NAMES = (
    "decode",
    "steps",
    "forms",
    "admission",
    "chat",
    "long-prompt",
    "idle",
    "recovery",
    "up",
    "passes",
    "planning",
    "scale",
    "documents",
    "commands",
    "push",
    "console",
    "overhead",
    "remote",
    "detection",
)


def main() -> int:
    """The exit status: 0 when all that was asked for was measured."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", default="", help=f"one or more of: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: to try the benchmarks")
    parser.add_argument("--json", type=Path, help="append the lines of JSON to this file as well")
    wanted = parser.parse_args()
    names = wanted.only.replace(",", " ").split() or list(NAMES)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"error: no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    for name in names:
        started = time.monotonic()
        for figure in measure_of(name)(wanted.quick):
            figures.append(figure)
            print(figure.line(), flush=True)
            if wanted.json:
                with wanted.json.open("a") as file:
                    file.write(figure.line() + "\n")
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    print()
    print("\n".join(table(figures)))
    return 0


def measure_of(name: str) -> Callable[[bool], Iterator[Figure]]:
    """The benchmark of one of ``NAMES``: called with whether to be quick."""
    measure: Callable[[bool], Iterator[Figure]] = import_module(
        f"{__package__}.measures.{name.replace('-', '_')}"
    ).measure
    return measure


if __name__ == "__main__":
    sys.exit(main())
