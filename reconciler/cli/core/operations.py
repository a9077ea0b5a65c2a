"""Commits operations: temporary changes of the running cluster, in addition to the manifests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.output.typed import typed
from reconciler.errors import Refused
from reconciler.source.operating.change import Asking, Decide, Key, ask_windows, now_of

from .app import Settings
from .commits import (
    DRY_RUN,
    OUTPUT,
    Files,
    How,
    Landed,
    Message,
    carry_out,
    opened,
    present,
    print_preview,
    refuse_watched_folder,
    running,
)
from .durations import DURATION, MOMENT
from .gathered import Decorator, gathered

if TYPE_CHECKING:
    from reconciler.resources.operation import Operation


@dataclass(frozen=True, slots=True)
class HowLong(How):
    """The options of commands that commit operations."""

    reason: str = ""
    until: float | None = None
    """When the operation ends by itself, in seconds since the Unix epoch."""


def operation_options(ends: bool = True) -> Decorator:
    """Add `--dry-run`, `--reason` and `-o`, and with ``ends`` also `--for` and `--until`, passed as ``how``."""
    return gathered("how", _how_long, *_OPTIONS, *(_ENDS if ends else ()))


_OPTIONS = (
    DRY_RUN,
    click.option(
        "-m", "--message", "--reason", "reason", default="", metavar="TEXT", help="Why, for the log."
    ),
    OUTPUT,
)
_ENDS = (
    click.option(
        "--for",
        "duration",
        type=DURATION,
        metavar="DURATION",
        help="End by itself after this long, e.g. 2h.",
    ),
    click.option("--until", type=MOMENT, metavar="TIME", help="End by itself at this time."),
)


def _how_long(
    dry_run: str,
    reason: str,
    output: str | None,
    duration: float | None = None,
    until: datetime | None = None,
) -> HowLong:
    if duration is not None and until is not None:
        raise click.UsageError("--for and --until both say when it ends; use one of them")
    end = until.timestamp() if until is not None else None
    if duration is not None:
        end = float(math.ceil(time.time() + max(duration, 1.0)))
    if end is not None and end <= time.time():
        raise click.UsageError("the end must be later than now")
    return HowLong(dry_run, None, output, reason.strip(), end)


def operate(settings: Settings, how: HowLong, decide: Decide) -> Landed:
    """Commit the edit that ``decide`` makes of the present operations, or for a dry run only show it.

    Operations that have expired are removed by the same commit. After a concurrent commit, decides again on top of
    it, a few times; then raises ``Conflict``.
    """
    from reconciler.source.git.authors import author_of
    from reconciler.source.operating.writing import write

    refuse_watched_folder(settings)
    _refuse_older_controller(settings)
    author = author_of(Path.cwd())
    asking = Asking(f"{author.name} <{author.email}>", how.reason, how.until)
    if how.dry:
        _, files = present(settings)
        now = now_of(files, operation_files(settings), asking, time.time())
        change = decide(now)
        ask_windows(now, change)
        if how.dry_run == "server":
            print_preview(settings, files, now.after(change))
        return Landed(None, change.results, operation=True)
    written = write(opened(settings), author, asking, decide, time.time)
    return Landed(written.revision, written.change.results, operation=True)


def operation_files(settings: Settings) -> dict[str, bytes]:
    from reconciler.source.git.repository import OPERATIONS, ClusterRepo

    if not (settings.repo / "HEAD").exists():
        return {}
    repo = ClusterRepo(settings.repo)
    head = repo.head(OPERATIONS)
    return repo.read(head, OPERATIONS) if head else {}


def present_operations(settings: Settings) -> dict[str, Operation]:
    """Return the newest operations by name."""
    from reconciler.source.operations import load_operations

    return {each.metadata.name: each for each in load_operations(operation_files(settings))}


def _refuse_older_controller(settings: Settings) -> None:
    """Raise ``Refused`` if the running controller reads no operations."""
    status = running(settings)
    if status is not None and "operations" not in status:
        raise Refused(
            "OlderController",
            f"the running controller is an older one ({status['version']}) that reads no operations; restart it first:"
            " end `reconciler up`, and start it again; ranks keep running meanwhile",
        )


def wish_or_operation(
    settings: Settings,
    how: HowLong,
    verb: str,
    ends: str,
    why: str,
    operation: Decide,
    wish: Callable[[Files], Any],
    message: Message,
) -> tuple[Landed, bool]:
    """Commit an operation of a verb where ``how`` gives an end or ``main`` is a mirror, else a change of ``main``.

    The change ends operations of the verb ``ends`` that would hide it; ``why`` is their reason. Returns what was done, and whether
    there were such operations.
    """
    from reconciler.source.operating import verbs

    def key(result: Any) -> Key:
        return result.kind, result.name

    if how.until is not None or mirrored(settings):
        landed = operate(settings, how, operation)
        made = _present(settings, verb, map(key, landed.results))
        if how.until is None and made and not how.dry:
            names = " ".join(made)
            text = f"note: main is a mirror, so this is an operation; to undo it: reconciler undo {names}"
            click.echo(typed(text), err=True)
        return landed, False
    landed = carry_out(settings, replace(how, message=how.reason or None), wish, message)
    keys = [key(result) for result in landed.results]
    ended = [] if how.dry else _present(settings, ends, keys)
    if ended:
        operate(settings, HowLong(reason=why), lambda now: verbs.end(now, ends, keys))
    for name in ended:
        click.echo(f"note: the operation {name} was undone by this", err=True)
    return landed, bool(ended)


def mirrored(settings: Settings) -> bool:
    from reconciler.source.git.repository import ClusterRepo

    return (settings.repo / "HEAD").exists() and bool(ClusterRepo(settings.repo).mirrored())


def _present(settings: Settings, verb: str, keys: Iterable[Key]) -> list[str]:
    """Return the names of the newest operations of a verb on objects."""
    from reconciler.resources.operation import operation_name

    there = present_operations(settings)
    return [name for key in keys if (name := operation_name(verb, *key)) in there]


def take_back(
    settings: Settings, how: HowLong, wanted: Mapping[Key, Mapping[tuple[str, ...], Any]], title: str
) -> None:
    """Change the fields of manifests that keep ranks off nodes, when the same operation is undone. Raises ``Refused`` for a
    mirror. ``title``: the verb of the commit's subject."""
    from reconciler.source.editing import set_fields
    from reconciler.source.operating import verbs

    url = opened(settings).mirrored() if not how.dry else ""
    if url:
        raise verbs.kept_off_by_mirror(tuple(wanted), url)
    carry_out(settings, How(how.dry_run), lambda files: set_fields(files, wanted), title)
