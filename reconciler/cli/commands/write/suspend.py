"""`suspend`, `resume`: keep changes of manifests out for a while; `undo`: end operations by their names; `override`: let in
what a sync window holds."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import WritingCommand, opened
from reconciler.cli.core.gathered import gathered
from reconciler.cli.core.operations import HowLong, operate, operation_options
from reconciler.cli.core.targets import WORDS, Key, Targets, labels_of
from reconciler.cli.core.waiting import finish, held_objects
from reconciler.errors import Refused
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Change, Now

DEPLOYMENT = "ModelDeployment"
WINDOW = "SyncWindow"
OVERRIDE_SECONDS = 3600.0
"""Default length of an override: the awaited changes come into force at once."""
EXPECTED = "expected KIND/NAME..., or --all for the whole cluster"


def _targets(words: tuple[str, ...], everything: bool) -> Targets | None:
    """Return the objects; None is the cluster."""
    if bool(words) == everything:
        raise click.UsageError(EXPECTED)
    return None if everything else Targets.parse(words, (), None, False)


_what = gathered(
    "targets",
    _targets,
    WORDS,
    click.option("--all", "everything", is_flag=True, help="The whole cluster: new commits of main wait."),
)


@click.command(cls=WritingCommand)
@_what
@operation_options()
@click.pass_obj
def suspend(settings: Settings, targets: Targets | None, how: HowLong) -> None:
    """Keep changes of manifests out, until `reconciler resume`.

    An object keeps the manifest that is in force now: it is observed, healed and served with it. Meanwhile, commits that
    change or remove it have no effect; operations such as drain and scale still do. With --all, no new commit of main comes
    into force.

    \b
    Examples:
      reconciler suspend tiny --reason "a demonstration"
      reconciler suspend deployment/tiny --until 2026-12-24T18:00:00Z
      reconciler suspend --all --for 8h
    """

    def decide(now: Now) -> Change:
        return verbs.suspend(now, {verbs.CLUSTER: {}} if targets is None else _in_force(settings, targets))

    landed = operate(settings, how, decide)
    finish(settings, how, landed, {"configured": "suspended", "unchanged": "already suspended"})


def _in_force(settings: Settings, targets: Targets) -> dict[Key, dict[str, Any]]:
    """Return the manifests in force of the selected objects. Raises ``Refused`` if one is missing or cannot be
    suspended."""
    from reconciler.source.operating.writing import in_force

    there = in_force(opened(settings))
    labels = {key: manifest.metadata.labels for key, manifest in there.items()}
    return verbs.frozen(there, targets.of_kind(DEPLOYMENT).found_in(labels))


@click.command(cls=WritingCommand)
@_what
@operation_options(ends=False)
@click.pass_obj
def resume(settings: Settings, targets: Targets | None, how: HowLong) -> None:
    """Let changes of manifests in again, after `reconciler suspend`.

    \b
    Examples:
      reconciler resume tiny
      reconciler resume --all
    """

    def decide(now: Now) -> Change:
        keys = [verbs.CLUSTER] if targets is None else list(targets.of_kind(DEPLOYMENT).named)
        return verbs.resume(now, keys)

    finish(settings, how, operate(settings, how, decide), {"configured": "resumed"})


@click.command(cls=WritingCommand)
@click.argument("names", nargs=-1, required=True, metavar="OPERATION...")
@operation_options(ends=False)
@click.pass_obj
def undo(settings: Settings, names: tuple[str, ...], how: HowLong) -> None:
    """End operations, by a commit that removes them.

    OPERATION is a name that `reconciler get operations` lists. For a change of manifests: reconciler rollout undo.

    \b
    Examples:
      reconciler undo scale.modeldeployment.tiny
      reconciler undo reboot.node.studio-1 --reason "it is needed"
    """
    landed = operate(settings, how, lambda now: verbs.undo(now, names))
    finish(settings, how, landed, {"configured": "undone"})


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
    lasting = how if how.until is not None else replace(how, until=float(int(time.time()) + OVERRIDE_SECONDS))
    kept = held_objects(settings)  # also a window that main no longer has, and that holds its own removal

    def no_window(other: str) -> Refused:
        return Refused("NoSyncWindow", f"{other} is no syncwindow; only these are overridden")

    def decide(now: Now) -> Change:
        there = {**labels_of(now.files), **{key: {} for key in kept}}
        chosen = Targets.parse(words, (), None, False).only(WINDOW, there, no_window)
        return verbs.begin(now, "override", chosen)

    landed = operate(settings, lasting, decide)
    finish(settings, lasting, landed, {"configured": "overridden", "unchanged": "already overridden"})
