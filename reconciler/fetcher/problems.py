"""The problems that end a fetch."""

from __future__ import annotations

import errno

from reconciler.wire.guarded_folders import barred
from reconciler.wire.weights import FetchProblem, FileReport


class Unfetched(Exception):
    """``problem`` is a value of ``FetchProblem``; the text is a sentence for people, without secrets."""

    def __init__(self, problem: str, text: str) -> None:
        self.problem = problem
        self.files: tuple[FileReport, ...] = ()
        """Results of a thorough verification so far."""
        super().__init__(text)


def of_disk(error: OSError) -> Unfetched:
    """Return the problem of a disk that cannot be written."""
    problem = FetchProblem.NOT_ALLOWED if barred(error) else FetchProblem.FAILED
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        problem = FetchProblem.DISK_FULL
    what = f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    return Unfetched(problem, what)


def size_in_words(size: float) -> str:
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.1f} {unit}"
    return f"{size:.0f} bytes"
