"""`suspend`, `resume`: keep changes of manifests out for a while; `undo`: end operations by their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import WritingCommand, opened
from reconciler.cli.core.operations import Change, HowLong, Now, operate, operation_options
from reconciler.cli.core.targets import Key, Targets
from reconciler.cli.core.waiting import finish
from reconciler.source.operating import verbs

DEPLOYMENT = "ModelDeployment"
EXPECTED = "expected KIND/NAME..., or --all for the whole cluster"


def _what(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add words for objects, and `--all` for the cluster, passed as ``targets``; None is the cluster."""

    @wraps(command)
    def with_targets(*arguments: Any, words: tuple[str, ...], everything: bool, **options: Any) -> Any:
        if bool(words) == everything:
            raise click.UsageError(EXPECTED)
        targets = None if everything else Targets.parse(words, (), None, False)
        return command(*arguments, targets=targets, **options)

    whole = click.option(
        "--all", "everything", is_flag=True, help="The whole cluster: new commits of main wait."
    )
    words = click.argument(
        "words", nargs=-1, metavar="KIND NAME... | KIND/NAME...", shell_complete=complete.objects
    )
    return words(whole(with_targets))


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
