"""Describes the effects of a push to its author: a few lines of text, short enough after git's ``remote: ``. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import few_names
from reconciler.resources import Manifest
from reconciler.resources.operation import Operation, written_moment
from reconciler.state import Hold, ObjectKey, Plan, Waiting, WaitingFor
from reconciler.state.desired import JobToRun, abbreviated

COLUMNS = 92
"""With git's ``remote: `` in front of it, a line has at most 100."""
ENTRIES_SHOWN = 12
"""Entries of a plan that a push shows; `reconciler plan` shows all."""
NAMES_SHOWN = 4
OPERATIONS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of the objects in force by a revision."""

    added: tuple[ObjectKey, ...]
    changed: tuple[ObjectKey, ...]
    removed: tuple[ObjectKey, ...]

    @classmethod
    def between(cls, before: Mapping[ObjectKey, Manifest], after: Mapping[ObjectKey, Manifest]) -> Change:
        """Compare objects by their manifests."""
        return cls(
            tuple(sorted(after.keys() - before.keys())),
            tuple(sorted(key for key in before.keys() & after.keys() if before[key] != after[key])),
            tuple(sorted(before.keys() - after.keys())),
        )

    @property
    def keys(self) -> tuple[ObjectKey, ...]:
        return (*self.added, *self.changed, *self.removed)

    def __str__(self) -> str:
        named = (("new", self.added), ("changed", self.changed), ("removed", self.removed))
        parts = [
            f"{word} {few_names([str(key) for key in keys], NAMES_SHOWN)}" for word, keys in named if keys
        ]
        return "; ".join(parts) or "no object changes"


def removal_lines(keys: Collection[ObjectKey]) -> list[str]:
    """Return why a push that removes serving objects is refused, and how to push it anyway; empty without any."""
    if not keys:
        return []
    names = few_names([str(key) for key in keys], NAMES_SHOWN)
    serve, them = ("serves", "it") if len(keys) == 1 else ("serve", "them")
    text = f"reconciler: this push removes {names}, which {serve} now. To remove {them} all the same, say so"
    return [*wrapped((text,)), *_said("Removal", [key.name for key in keys])]


def job_lines(runs: Collection[JobToRun]) -> list[str]:
    """Return why a push that would run jobs is refused, and how to push it anyway; empty without any."""
    if not runs:
        return []
    jobs = few_names([str(each) for each in runs], NAMES_SHOWN)
    them = "it" if len(runs) == 1 else "them"
    text = f"reconciler: this push would run {jobs}. A job is code: to run {them}, say so"
    return [*wrapped((text,)), *_said("Job", [each.name for each in runs])]


def _said(what: str, names: Iterable[str]) -> list[str]:
    """Return the commands that permit a push, each uncut in a line of its own, because people copy them."""
    listed = ", ".join(dict.fromkeys(names))
    return [
        f"    in the commit: git commit --amend --no-edit --trailer 'Allow-{what}: {listed}'",
        f"    or once: git push -o allow-{what.lower()}",
    ]


def too_large_lines(texts: Sequence[str]) -> list[str]:
    """Return why a push of deployments that no node could ever hold is refused."""
    return wrapped(["reconciler: no node could ever hold this:", *(f"  ! {text}" for text in texts)])


def forecast(
    revision: str,
    change: object,
    lacking: Sequence[str],
    costs: Sequence[str],
    before: Plan,
    after: Plan,
    now: float,
) -> list[str]:
    """Return the faults and costs of a revision, and the steps that the next pass would take because of it.

    ``change``: the changes, in words.
    """
    known = {*_entries(before, now), *(("!", text) for text in lacking)}
    fresh = [entry for entry in _entries(after, now) if entry not in known]
    shown = fresh[:ENTRIES_SHOWN]
    lines = [f"reconciler: plan of {abbreviated(revision)[:7]}: {change}"]
    lines += [f"  ! {text}" for text in lacking[:ENTRIES_SHOWN]]
    lines += [f"  = {text}" for text in costs[:ENTRIES_SHOWN]]
    lines += [f"  {sign} {text}" for sign, text in shown]
    if len(fresh) > len(shown):
        lines.append(f"  and {len(fresh) - len(shown)} more; after the push: reconciler plan")
    if not (fresh or costs or lacking):
        lines.append("  nothing to do")
    return wrapped(lines)


@dataclass(frozen=True, slots=True)
class OperationsChange:
    """The changes of the operations by a push."""

    begun: tuple[str, ...]
    """Their names. A changed one begins again."""
    ended: tuple[str, ...]
    operations: tuple[Operation, ...] = ()
    """Those that begin."""

    @classmethod
    def between(cls, before: Iterable[Operation], after: Iterable[Operation]) -> OperationsChange:
        """Compare operations by their content."""
        was, now = ({each.metadata.name: each for each in some} for some in (before, after))
        begun = tuple(sorted(name for name in now if now[name] != was.get(name)))
        return cls(begun, tuple(sorted(was.keys() - now.keys())), tuple(now[name] for name in begun))

    def __str__(self) -> str:
        named = (("begins", self.begun), ("ends", self.ended))
        return (
            "; ".join(f"{word} {few_names(list(names), NAMES_SHOWN)}" for word, names in named if names)
            or "no operation changes"
        )


def difference_lines(operations: Collection[Operation]) -> list[str]:
    """Return the operations by which the cluster differs from the pushed manifests, one a line; none without any."""
    if not operations:
        return []
    lines = ["reconciler: live differs from git by"]
    for each in list(operations)[:OPERATIONS_SHOWN]:
        spec = each.spec
        end = f" until {written_moment(spec.until)}" if spec.until is not None else ""
        lines.append(
            f"  {spec.verb} of {spec.target} by {each.who}{end}{f': {spec.reason}' if spec.reason else ''}"
        )
    more = len(operations) - OPERATIONS_SHOWN
    if more > 0:
        lines.append(f"  and {more} more; list them with: reconciler get operations")
    return wrapped(lines)


def held_lines(hold: Hold) -> list[str]:
    """Say that a revision will not come into force by itself."""
    text = f"reconciler: held: {hold.why}"
    return wrapped((text, f"reconciler: the previous revision stays in force until: {hold.command}"))


def wrapped(lines: Iterable[str]) -> list[str]:
    """Return lines of at most ``COLUMNS`` columns; a longer word stays whole, because people may copy it."""
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            line,
            COLUMNS,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        or [""]
    ]


def _entries(plan: Plan, now: float) -> list[tuple[str, str]]:
    """Return signs and texts of a plan, as `reconciler plan` has them: refusals and waits first, then steps."""
    entries = [("!", f"{refusal.object}: {refusal.told}") for refusal in plan.refused]
    entries += [("+", f"{step.object}: {step}") for step in plan.steps]
    waits = (waiting for waiting in plan.waiting if waiting.reason is not WaitingFor.WINDOW)  # said apart
    entries += [("~", f"{waiting.object}: {waiting.text}{_left(waiting, now)}") for waiting in waits]
    return list(dict.fromkeys(entries))


def _left(waiting: Waiting, now: float) -> str:
    return "" if waiting.until is None else f" (for {max(1, round(waiting.until - now))} s)"
