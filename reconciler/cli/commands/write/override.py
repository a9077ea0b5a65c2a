"""`override`: let in changes that a sync window holds, for a while."""

from __future__ import annotations

import time
from dataclasses import replace

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import WritingCommand
from reconciler.cli.core.operations import Change, HowLong, Now, operate, operation_options
from reconciler.cli.core.targets import Targets, labels_of
from reconciler.cli.core.waiting import finish, held_objects
from reconciler.errors import Refused
from reconciler.source.operating import verbs

WINDOW = "SyncWindow"
SECONDS = 3600.0
"""Default length of an override: the awaited changes come into force at once."""


@click.command(cls=WritingCommand)
@click.argument("words", nargs=-1, required=True, metavar="WINDOW...", shell_complete=complete.objects)
@operation_options()
@click.pass_obj
def override(settings: Settings, words: tuple[str, ...], how: HowLong) -> None:
    """Let in what a sync window holds, for an hour or as long as --for says.

    It needs a reason. All changes that the window would hold come into force meanwhile, and stay in force. When the
    override ends, the window holds changes again.

    \b
    Examples:
      reconciler override office-hours --reason "the answer to incident 12"
      reconciler override office-hours --reason "moving house" --for 8h
      reconciler undo override.syncwindow.office-hours
    """
    if not how.reason:
        raise click.UsageError('say why, for the log: --reason "the answer to incident 12"')
    lasting = how if how.until is not None else replace(how, until=float(int(time.time()) + SECONDS))
    kept = held_objects(settings)  # also a window that main no longer has, and that holds its own removal

    def decide(now: Now) -> Change:
        there = {**labels_of(now.files), **{key: {} for key in kept}}
        chosen = Targets.parse(words, (), None, False).only(WINDOW, there, _no_window)
        return verbs.begin(now, "override", chosen)

    landed = operate(settings, lasting, decide)
    finish(settings, lasting, landed, {"configured": "overridden", "unchanged": "already overridden"})


def _no_window(other: str) -> Refused:
    return Refused("NoSyncWindow", f"{other} is no syncwindow; only these are overridden")
