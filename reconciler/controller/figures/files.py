"""Figures on disk, so that they survive a restart: for each density a file that grows line by line, and the one before it.

The first line of a file is ``{"version": 1, "seconds": 10}``. A line ``{"keys": [[object, name], ...]}`` names the numbers of
the following ones: ``[slot, number or null, ...]``. A file that cannot be read is begun again: nothing depends on it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
from collections.abc import Iterator
from pathlib import Path

from .series import Key, Ring, Sample, Step

log = logging.getLogger(__name__)

VERSION = 1
DIGITS = 5
"""Digits of each number: a plot shows no more."""


class File:
    """The file of one density: at most as many lines as the density has intervals, then it becomes the one before."""

    def __init__(self, folder: Path, step: Step) -> None:
        self._path = folder / f"every-{step.seconds}-seconds.jsonl"
        self._old = self._path.with_suffix(".old.jsonl")
        self._step = step
        self._keys: tuple[Key, ...] = ()
        self._lines = step.count
        """Lines of the file. The maximum stands for a file that is to be begun again, such as one that was not written to its
        end."""
        self._problem = ""

    def load(self, ring: Ring) -> None:
        """Put all known figures into a ring."""
        for path in (self._old, self._path):
            self._lines = 0
            for slot, sample in self._read(path):
                self._lines += 1
                if slot > ring.last:
                    ring.put(slot, sample)

    def add(self, slot: int, sample: Sample) -> None:
        """Add a line. A full disk costs only this line."""
        try:
            self._add(slot, sample)
        except OSError as error:
            if str(error) != self._problem:
                log.warning("figures are not kept for the time after a restart: %s: %s", self._path, error)
            self._problem = str(error)
            self._lines = self._step.count
        else:
            self._problem = ""

    def _add(self, slot: int, sample: Sample) -> None:
        lines = []
        if self._lines >= self._step.count:
            self._begin()
            lines.append(json.dumps({"version": VERSION, "seconds": self._step.seconds}))
        keys = tuple(sorted(sample))
        if keys != self._keys:
            lines.append(json.dumps({"keys": keys}))
        lines.append(json.dumps([slot, *(number(sample[key]) for key in keys)]))
        with self._path.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        self._keys = keys
        self._lines += 1

    def _begin(self) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self._path.replace(self._old)
        os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        self._keys, self._lines = (), 0

    def _read(self, path: Path) -> Iterator[tuple[int, Sample]]:
        """Yield the lines of a file, up to one that was not written to its end."""
        keys: tuple[Key, ...] = ()
        try:
            with path.open(encoding="utf-8") as file:
                head = json.loads(file.readline())
                if head != {"version": VERSION, "seconds": self._step.seconds}:
                    raise ValueError(f"expected version {VERSION}")
                for line in file:
                    read = json.loads(line)
                    if isinstance(read, dict):
                        keys = tuple(Key(of, name) for of, name in read["keys"])
                        continue
                    slot, *numbers = read
                    found = zip(keys, numbers, strict=True)
                    yield int(slot), {key: float(each) for key, each in found if each is not None}
        except FileNotFoundError:
            self._lines = self._step.count
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the rest of %s is ignored: %s", path, error)
            self._lines = self._step.count


def number(value: float) -> float | None:
    """Return a figure as in JSON; None for a missing one."""
    if math.isnan(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded
