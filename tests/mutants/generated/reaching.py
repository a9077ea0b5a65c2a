"""Which tests reach a bug: noted in one run of both tiers but for whole clusters, and kept until product or tests change."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

from tests.conftest import CLUSTER_FOLDERS
from tests.mutants.planting import ROOT
from tests.mutants.tiers import GATING_MARKERS, Took

from .drawing import Generated
from .recorder import FOLDER, ROOMS

CACHE = ROOT / ".mutants_cache"
SECONDS_FOR_ONE = 30.0
"""Of tests for one bug, as long as they took when they were recorded."""
SECONDS_FOR_THE_REST = 120.0
"""Of further tests for a bug that the first ones let pass: whatever gates a change may catch it."""
SHARE_FOR_ONE = 0.02
"""So much of all tests at least: where the machine was busy, all took longer."""
NOT_RECORDED = (*CLUSTER_FOLDERS, "bench", "console/browser", "documents", "mutants", "sandbox", "simulation")
"""Whole clusters, which take too long for one bug; tests of tools; and the simulator, whose slice judges by itself."""
OF_CONSTANTS = ("tests/documents/test_waits.py::test_the_figures_of_the_table_are_those_of_the_code",)
"""They compare constants with what people read, from the source: no recorder sees it."""
PROCESSES = ("agent", "gateway", "runner")
"""Rooms whose code runs in processes of its own, some of which no recorder enters (``python -I``)."""
HERE = Path(__file__).parent


@dataclass(slots=True)
class Reached:
    """What each test reaches."""

    key: str = ""
    """Another one when the product or a test has changed."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each test took, fixtures included."""
    masks: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """By file and test: bit n stands for line n."""

    def by(self, bug: Generated) -> list[str]:
        """Return the tests that reach a bug."""
        if not bug.mentions:
            return self._at(bug.file, bug.lines)
        found = {
            test
            for file in self.masks
            for test in self._at(file, _mentioning(file, bug.mentions, bug.lines if file == bug.file else ()))
        }
        return sorted(found) or list(self.masks.get(bug.file, ()))

    def chosen(self, bug: Generated) -> list[str]:
        """Return what is run against a bug first, within ``SECONDS_FOR_ONE``: the tests of its module, of its folder, of
        its room, then others; of these the fastest files first. Against a constant, those of all constants come before."""
        share = SHARE_FOR_ONE * sum(self.seconds.values())
        of_all = OF_CONSTANTS if bug.mentions else ()
        return [*of_all, *self._within(max(SECONDS_FOR_ONE, share), self._near(bug))]

    def rest(self, bug: Generated) -> list[str]:
        """Return what is run against a bug that those let pass, within ``SECONDS_FOR_THE_REST``, in the same order."""
        before = set(self.chosen(bug))
        files = ([test for test in tests if test not in before] for tests in self._near(bug))
        return list(self._within(SECONDS_FOR_THE_REST, files))

    def _near(self, bug: Generated) -> list[list[str]]:
        """Return the tests that may catch a bug, by files, the nearest file first."""
        files = defaultdict(list)
        beside = [test for test in self.seconds if bug.room in PROCESSES and _nearness(bug.file, test) < 2]
        reaching = self.by(bug)
        for test in dict.fromkeys([*reaching, *beside]):
            files[test.partition("::")[0]].append(test)
        for tests in files.values():
            tests.sort(key=lambda test: (test not in reaching, self.seconds.get(test, 1.0)))
        return [files[file] for file in sorted(files, key=lambda file: self._rank(bug, file, files[file]))]

    def took(self, tests: Iterable[str]) -> Took:
        """Return how long those tests took when they were recorded."""
        seconds = [self.seconds.get(test, 0.0) for test in tests]
        return Took(max(seconds, default=0.0), sum(seconds))

    def _within(self, left: float, files: Iterable[list[str]]) -> Iterator[str]:
        longest = left / 3
        for tests in files:
            share = left / 2
            for test in tests:
                seconds = self.seconds.get(test, 1.0)
                if seconds <= min(share, longest):
                    share -= seconds
                    left -= seconds
                    yield test

    def _rank(self, bug: Generated, file: str, tests: Sequence[str]) -> tuple[int, float]:
        return _nearness(bug.file, file), sum(self.seconds.get(test, 1.0) for test in tests)

    def _at(self, file: str, lines: Iterable[int]) -> list[str]:
        bits = sum(1 << line for line in set(lines))
        return [test for test, mask in self.masks.get(file, {}).items() if mask & bits]


def reached(tests: Sequence[str], workers: int) -> Reached:
    """Read what was recorded, or record it anew where the product or a test has changed since."""
    key = _digest(tests)
    path = CACHE / "reached.json"
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return _read(kept["rows"], key)
    rows = _recorded(tests, workers)
    CACHE.mkdir(exist_ok=True)
    path.write_text(json.dumps({"key": key, "rows": rows}), encoding="utf-8")
    return _read(rows, key)


def _recorded(tests: Sequence[str], workers: int) -> list[tuple[str, float, dict[str, str]]]:
    """Run the tests, and return for each its name, its seconds and what it reaches."""
    print(f"recording which lines each of {', '.join(tests)} reaches ...", file=sys.stderr, flush=True)
    path = os.pathsep.join((str(HERE / "hook"), str(ROOT)))
    side_by_side = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        GATING_MARKERS,
        "--timeout=600",
        "--no-header",
        "--tb=no",
    ]
    options += [f"--ignore=tests/{folder}" for folder in NOT_RECORDED]
    with tempfile.TemporaryDirectory(prefix="reached-") as folder:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                f"{__package__}.recording",
                *options,
                *side_by_side,
                *tests,
            ],
            cwd=ROOT,
            env={**os.environ, FOLDER: folder, "PYTHONPATH": path, "RECONCILER_CHANGED": "all"},
            stdout=sys.stderr,
            check=False,
        )
        return _gathered(Path(folder))


def _gathered(folder: Path) -> list[tuple[str, float, dict[str, str]]]:
    """Add to what each test reached in its own process what was reached in those that it started."""
    seconds: dict[str, float] = {}
    masks: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for path in folder.glob("*.jsonl"):
        for row in path.read_text(encoding="utf-8").splitlines():
            test, took, files = json.loads(row)
            seconds[test] = took
            for file, mask in files.items():
                masks[test][file] |= int(mask, 16)
    for path in folder.glob("*.lines"):
        for row in path.read_text(encoding="utf-8").splitlines():
            test, file, line = row.split("\t")
            masks[test][file] |= 1 << int(line)
    return [
        (test, round(took, 3), {file: f"{mask:x}" for file, mask in masks[test].items()})
        for test, took in seconds.items()
    ]


def _read(rows: Iterable[tuple[str, float, dict[str, str]]], key: str = "") -> Reached:
    found = Reached(key)
    for test, seconds, files in rows:
        found.seconds[test] = seconds
        for file, mask in files.items():
            found.masks[file][test] = int(mask, 16)
    return found


def _digest(tests: Sequence[str]) -> str:
    told = hashlib.sha256(repr(sorted(tests)).encode())
    for room in (*(f"reconciler/{room}" for room in ROOMS), "tests"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if not path.is_relative_to(HERE.parent):
                told.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return told.hexdigest()


def _nearness(file: str, test: str) -> int:
    """0 for a test of the module, 1 for one of its folder, 2 for one of its room, 3 for others."""
    source, tests = PurePosixPath(file), PurePosixPath(test.partition("::")[0])
    if tests.parts[1:2] != source.parts[1:2]:
        return 3
    if tests.parts[1:-1] != source.parts[1:-1]:
        return 2
    return 0 if source.stem in tests.stem else 1


@cache
def _mentioning(file: str, name: str, without: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lines of a file that have a name in them."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    lines = _text(file).splitlines()
    return tuple(at for at, line in enumerate(lines, 1) if at not in without and word.search(line))


@cache
def _text(file: str) -> str:
    path = ROOT / file
    return path.read_text(encoding="utf-8") if path.exists() else ""
