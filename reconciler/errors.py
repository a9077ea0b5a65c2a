"""Every error of the product, by what to do next.

::

    ReconcilerError
    ├── Invalid            the input is wrong: say where, and what was expected; never retried
    │   └── InvalidManifests   many findings at once, each with file, line and column
    ├── Refused            the other side will not, for a reason that it names; not retried unchanged
    ├── Unreachable        nobody serves there now; the next pass looks again
    │   └── Silent             no answer at all, so whether anybody is there is not known
    │       └── Barred             somebody is there and the way is barred, until a person does what it says
    ├── Unwritable         the disk takes nothing now: full, or read-only; tried again until it does
    └── Conflict           somebody else was first; look again, then decide anew
        └── Deposed            another controller has taken over: this one ends, and does nothing more
"""

from __future__ import annotations

from dataclasses import dataclass


class ReconcilerError(Exception):
    """Base of all; the text is a sentence for people."""


class Invalid(ReconcilerError):
    """The input is wrong. Nothing was changed."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One finding in a manifest. ``line`` and ``column`` count from 1."""

    file: str
    line: int
    column: int
    path: str
    """Dotted path of the field, such as ``spec.parallelism``; empty for the document itself."""
    text: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        return where + (f"{self.path}: {self.text}" if self.path else self.text)


class InvalidManifests(Invalid):
    """All that is wrong with a set of manifests, in the order of file and line."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Refused(ReconcilerError):
    """The other side said no. ``code`` is its CamelCase reason."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text)


class Unreachable(ReconcilerError):
    """No answer: a closed connection, a missing socket; what was asked may have been done or not."""


class Silent(Unreachable):
    """No answer in time: the other side may be gone, cut off, or only stand still. It is not known to be down."""


class Barred(Silent):
    """The machine is not to be talked to, or lets nobody in: what it runs is not known. ``code`` is the CamelCase reason."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text)


class Unwritable(ReconcilerError):
    """What has to last cannot be written now."""


class Conflict(ReconcilerError):
    """The state is no longer what the caller had read."""


class Deposed(Conflict):
    """Another controller has taken over. Nothing that this one still does may have an effect."""
