"""The errors of the product, grouped by what to do next.

::

    ReconcilerError
    ├── Invalid            the input is wrong: say where, and what was expected; never retried
    │   └── InvalidManifests   several problems, each with file, line and column
    ├── Refused            the other side refuses with a reason; not retried unchanged
    ├── Unreachable        no connection; the next pass tries again
    │   └── Silent             no answer, so the state of the other side is unknown
    │       └── Barred             access is denied until a person does what the error says
    ├── Unwritable         the disk is full or read-only; retried until it is writable
    │   └── Locked             another process has locked the store; retried every second
    └── Conflict           another writer was first; read again, then decide again
        └── Deposed            another controller has taken over: this one ends, and does nothing more
            └── Damaged            the store is damaged: this controller ends, and the next one begins a new store
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class ReconcilerError(Exception):
    """Base class; the text is a sentence for people."""


class Invalid(ReconcilerError):
    """The input is wrong. Nothing was changed."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake in a manifest. ``line`` and ``column`` count from 1."""

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
    """All mistakes in a set of manifests, sorted by file and line."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Refused(ReconcilerError):
    """The other side refused. ``code`` is its CamelCase reason."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text)


class Unreachable(ReconcilerError):
    """No connection, or a broken one: the request may have been carried out or not."""


class Silent(Unreachable):
    """No answer in time. The other side may be gone, cut off or suspended; it is not known to be down."""


class Barred(Silent):
    """Access to the machine is denied, so its state is unknown. ``code`` is the CamelCase reason, ``remedy`` the
    command or setting for a person; empty if the text has it."""

    def __init__(self, code: str, text: str, remedy: str = "") -> None:
        self.code = code
        self.remedy = remedy
        super().__init__(text)


class Unwritable(ReconcilerError):
    """Durable state cannot be written now."""


class Locked(Unwritable):
    """Another process holds the store's lock. Writes wait; nothing else does."""


class Conflict(ReconcilerError):
    """The state has changed since the caller read it."""


class Deposed(Conflict):
    """Another controller has taken over. Further actions of this controller must have no effect."""


class Damaged(Deposed):
    """The store's files have lost what was written. They must neither be written any more, nor trusted."""


def on_one_line(text: str) -> str:
    """Return an error of several lines on one, for tables."""
    return text.replace(":\n", ": ").replace("\n", "; ").replace("  ", " ")


def few_names(names: Sequence[str], shown: int = 3) -> str:
    """Return the first names, and the number of the others, for people."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


def not_found(plural: str, name: str, known: Iterable[str] = ()) -> Refused:
    """Return the error for a missing object of a kind such as ``nodes``; ``known`` are the names of existing ones."""
    import difflib

    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    advice = f'did you mean "{close[0]}"?' if close else listing(plural)
    return Refused("NotFound", f'{plural} "{name}" not found; {advice}')


def listing(plural: str) -> str:
    """Return advice on how to list objects: ``plural`` is a kind such as ``nodes``, or ``all``."""
    return f"list them with: reconciler get {plural}"
