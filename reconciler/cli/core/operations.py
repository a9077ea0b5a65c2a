"""Commits operations: what is done to the running cluster for a while, beside the manifests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reconciler.errors import Conflict, Refused

from .app import Settings
from .commits import (
    COMMITS_TRIED,
    DRY_RUNS,
    Files,
    How,
    Landed,
    carry_out,
    in_force,
    opened,
    present,
    print_preview,
    refuse_watched_folder,
    running,
    subject,
)
from .durations import Duration, Moment

if TYPE_CHECKING:
    from reconciler.resources.operation import Operation

F = TypeVar("F", bound=Callable[..., Any])
Key = tuple[str, str]

REASON_IN_SUBJECT_MAX = 60
OBJECTS_IN_SUBJECT_MAX = 5


@dataclass(frozen=True, slots=True)
class HowLong(How):
    """The options of commands that commit operations."""

    reason: str = ""
    until: float | None = None
    """When the operation ends by itself, in seconds since the Unix epoch."""


@dataclass(frozen=True, slots=True)
class Change:
    """Operations to write (None undoes one), by name, and the result for each object."""

    title: str
    """A verb for the commit's subject."""
    results: tuple[Any, ...]
    operations: Mapping[str, Operation | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Now:
    """What a command decides on."""

    files: Files
    """The manifests of ``main``."""
    operation_files: Files
    operations: Mapping[str, Operation]
    """Those that have not expired, by name."""
    ended: frozenset[str]
    """The names of those that have."""
    by: str
    at: float
    how: HowLong

    def operation(self, verb: str, key: Key, at: float | None = None, **values: Any) -> Operation:
        """Return a new operation, with author, reason and end as the command line says."""
        from reconciler.resources import API_VERSION
        from reconciler.resources.operation import KIND, Operation, operation_name, written_moment

        ends = {} if self.how.until is None else {"until": written_moment(self.how.until)}
        spec = {
            "verb": verb,
            "target": {"kind": key[0], "name": key[1]},
            "by": self.by,
            "at": written_moment(at or self.at),
            "reason": self.how.reason,
            **ends,
            **values,
        }
        name = operation_name(verb, *key)
        return Operation.model_validate(
            {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
        )

    def asked(self, operation: Operation) -> bool:
        """Return whether the same was asked for before; who gives no reason and no end keeps the earlier ones."""
        before = self.operations.get(operation.metadata.name)
        if before is None:
            return False
        kept = {"by": before.spec.by, "at": before.spec.at}
        kept |= {} if self.how.reason else {"reason": before.spec.reason}
        kept |= {} if self.how.until else {"until": before.spec.until}
        return before.spec == operation.spec.model_copy(update=kept)

    def changes(self, change: Change) -> dict[str, bytes | None]:
        """Return the files that a change writes; None removes one."""
        from reconciler.source.operations import file_of, text_of

        written = {name: None if made is None else text_of(made) for name, made in change.operations.items()}
        return {file_of(name): text for name, text in {**dict.fromkeys(self.ended), **written}.items()}

    def after(self, change: Change) -> dict[str, bytes]:
        """Return the files of all operations after a change."""
        after = {**self.operation_files, **self.changes(change)}
        return {name: text for name, text in after.items() if text is not None}


Decide = Callable[[Now], Change]


def operation_options(ends: bool = True) -> Callable[[F], F]:
    """Add `--dry-run`, `--reason` and `-o`, and with ``ends`` also `--for` and `--until`, passed as ``how``."""

    def decorate(command: F) -> F:
        @wraps(command)
        def with_how(
            *arguments: Any,
            dry_run: str,
            reason: str,
            output: str | None,
            duration: float | None = None,
            until: datetime | None = None,
            **options: Any,
        ) -> Any:
            end = _end(duration, until)
            how = HowLong(dry_run, None, output, reason.strip(), end)
            return command(*arguments, how=how, **options)

        decorated: Any = with_how
        for option in (*(_ENDS if ends else ()), *_OPTIONS):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


_OPTIONS = (
    click.option(
        "-o",
        "--output",
        type=click.Choice(("json", "yaml", "name")),
        help="Print in this format instead of lines.",
    ),
    click.option(
        "-m", "--message", "--reason", "reason", default="", metavar="TEXT", help="Why, for the log."
    ),
    click.option(
        "--dry-run",
        type=click.Choice(DRY_RUNS),
        default="none",
        metavar="[=none|client|server]",
        help="Show what would happen, and change nothing; server also asks the controller.",
    ),
)
_ENDS = (
    click.option("--until", type=Moment(), metavar="TIME", help="End by itself at this time."),
    click.option(
        "--for",
        "duration",
        type=Duration(),
        metavar="DURATION",
        help="End by itself after this long, e.g. 2h.",
    ),
)


def _end(duration: float | None, until: datetime | None) -> float | None:
    if duration is not None and until is not None:
        raise click.UsageError("--for and --until both say when it ends; use one of them")
    end = until.timestamp() if until is not None else None
    if duration is not None:
        end = int(time.time()) + max(duration, 1.0)
    if end is not None and end <= time.time():
        raise click.UsageError("the end must be later than now")
    return end


def operate(settings: Settings, how: HowLong, decide: Decide) -> Landed:
    """Commit what ``decide`` makes of the present operations, or with a dry run only show it.

    Operations that have expired are removed by the same commit. After a concurrent commit, decides again on top of
    it, a few times; then raises ``Conflict``.
    """
    from reconciler.source.git.repository import OPERATIONS, author_of

    refuse_watched_folder(settings)
    _refuse_older_controller(settings)
    author = author_of(Path.cwd())
    by = f"{author.name} <{author.email}>"
    if how.dry:
        _, files = present(settings)
        now = _now(files, operation_files(settings), by, how)
        change = decide(now)
        _ask_windows(now, change)
        if how.dry_run == "server":
            print_preview(settings, files, now.after(change))
        return Landed(None, change.results, operation=True)
    repo = opened(settings)
    for attempt in range(1, COMMITS_TRIED + 1):
        head = repo.head(OPERATIONS)
        now = _now(in_force(repo)[1], repo.read(head) if head else {}, by, how)
        change = decide(now)
        if not change.operations:
            return Landed(head, change.results, operation=True)
        _ask_windows(now, change)
        try:
            made = repo.commit(head, now.changes(change), _message(now, change), author, OPERATIONS)
            return Landed(made, change.results, operation=True)
        except Conflict:
            if attempt == COMMITS_TRIED:
                raise
    raise AssertionError("the loop returns or raises")


def _ask_windows(now: Now, change: Change) -> None:
    """Raise ``Refused`` if a sync window of the manifests keeps an operation out that would begin."""
    if not any(b"SyncWindow" in text for text in now.files.values()):
        return  # reading all manifests takes a while
    from reconciler.source.yaml.documents import load
    from reconciler.state.identity import ObjectKey
    from reconciler.state.overlay import Operations
    from reconciler.state.sync_windows import refused_operations

    manifests = {ObjectKey(*document.key): document.manifest for document in load(now.files)}
    overridden = Operations("", tuple(now.operations.values())).overridden(now.at)
    begun = [each for each in change.operations.values() if each is not None]
    if refused := refused_operations(manifests, begun, overridden, now.at):
        raise Refused("HeldBySyncWindow", "; ".join(refused))


def _now(files: Files, operation_files: Files, by: str, how: HowLong) -> Now:
    from reconciler.source.operations import load_operations

    every, at = load_operations(operation_files), time.time()
    ended = frozenset(o.metadata.name for o in every if o.spec.until is not None and o.spec.until <= at)
    here = {o.metadata.name: o for o in every if o.metadata.name not in ended}
    return Now(files, operation_files, here, ended, by, float(int(at)), how)


def operation_files(settings: Settings) -> dict[str, bytes]:
    """Return the files of the newest operations."""
    from reconciler.source.git.repository import OPERATIONS, ClusterRepo

    if not (settings.repo / "HEAD").exists():
        return {}
    repo = ClusterRepo(settings.repo)
    head = repo.head(OPERATIONS)
    return repo.read(head) if head else {}


def present_operations(settings: Settings) -> dict[str, Operation]:
    """Return the newest operations by name."""
    from reconciler.source.operations import load_operations

    return {each.metadata.name: each for each in load_operations(operation_files(settings))}


def _message(now: Now, change: Change) -> str:
    """Return a commit message: what, on what, why; then the end, and what has expired."""
    from reconciler.resources.operation import written_moment

    how = now.how
    named = [f"{each.kind.lower()}/{each.name}" for each in change.results if each.action != "unchanged"]
    more = " and more" if len(named) > OBJECTS_IN_SUBJECT_MAX else ""
    title = f"{change.title} {', '.join(named[:OBJECTS_IN_SUBJECT_MAX])}{more}".strip()
    short = "\n" not in how.reason and len(how.reason) <= REASON_IN_SUBJECT_MAX
    lines = [f"{title}: {how.reason}" if how.reason and short else title]
    if how.reason and not short:
        lines.append(how.reason)
    if how.until is not None:
        lines.append(f"Until: {written_moment(how.until)}")
    if now.ended - change.operations.keys():
        lines.append(f"Expired: {', '.join(sorted(now.ended - change.operations.keys()))}")
    return "\n\n".join(lines) + "\n"


def results(keys: Iterable[Key], changed: Iterable[Key]) -> tuple[Any, ...]:
    """Return the result for each object."""
    from reconciler.source.editing import Result

    those = set(changed)
    return tuple(Result(*key, "configured" if key in those else "unchanged") for key in keys)


def _refuse_older_controller(settings: Settings) -> None:
    """Raise ``Refused`` if the running controller reads no operations."""
    status = running(settings)
    if status is not None and "operations" not in status:
        raise Refused(
            "OlderController",
            f"the running controller is an older one ({status['version']}) that reads no operations; restart it first:"
            " end `reconciler up`, and start it again; ranks go on meanwhile",
        )


def take_back(
    settings: Settings, how: HowLong, wanted: Mapping[Key, Mapping[tuple[str, ...], Any]], verb: str
) -> None:
    """Change fields of manifests that say the same as an operation that is undone. Raises ``Refused`` for a mirror."""
    from reconciler.source.editing import set_fields
    from reconciler.source.git.repository import mirror_text

    url = opened(settings).mirrored() if not how.dry else ""
    if url:
        names = ", ".join(f"{kind.lower()}/{name}" for kind, name in wanted)
        raise Refused("Mirrored", f"the manifest of {names} says it too, and {mirror_text(url)}")
    carry_out(settings, How(how.dry_run), lambda files: set_fields(files, wanted), subject(verb))
