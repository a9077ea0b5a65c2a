"""`rollout pause` and `rollout resume`: let changes of a deployment wait, and let them continue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import Files, WritingCommand
from reconciler.cli.core.operations import HowLong, operation_options, wish_or_operation
from reconciler.cli.core.targets import Targets, target_options
from reconciler.cli.core.waiting import finish
from reconciler.errors import Refused
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Change, Now, results

from .scale import chosen_deployments

if TYPE_CHECKING:
    from reconciler.resources import ModelDeployment

Fields = dict[tuple[str, ...], Any]
PAUSE, RESUME = "pause", "resume"


@click.command(cls=WritingCommand)
@target_options
@operation_options()
@click.pass_obj
def pause(settings: Settings, targets: Targets, how: HowLong) -> None:
    """Let changes of deployments wait, by a commit that sets spec.paused.

    Running groups continue, and a group that ends is formed again as it was. With --for or --until, or if main is a mirror,
    the pause is an operation: main stays as it is, and applies again after the end, or after `reconciler undo`.

    \b
    Examples:
      reconciler rollout pause deployment/tiny
      reconciler rollout pause deployment/tiny --for 8h --reason "the fair"
      reconciler rollout pause deployments --all
    """

    def for_a_while(now: Now) -> Change:
        chosen = chosen_deployments(now.files, targets, not_for("paused"))
        change = verbs.begin(now, PAUSE, chosen)
        ended = dict.fromkeys(verbs.present(now, RESUME, chosen).values())
        return replace(change, operations={**ended, **change.operations})

    def for_good(files: Files) -> Any:
        return _edited(files, targets, lambda _: {("spec", "paused"): True}, "paused")

    landed, _ = wish_or_operation(
        settings, how, PAUSE, RESUME, "main says that changes wait", for_a_while, for_good, "Pause"
    )
    finish(settings, how, landed, {"configured": "paused"})


@click.command(cls=WritingCommand)
@target_options
@operation_options(ends=False)
@click.pass_obj
def resume(settings: Settings, targets: Targets, how: HowLong) -> None:
    """Continue with changes of deployments that are paused, or that wait for their canaries.

    Ends the effect of `rollout pause`. A commit changes the deployments in main; if main is a mirror, an operation does so
    instead.

    \b
    Examples:
      reconciler rollout resume deployment/tiny
      reconciler rollout resume deployments --all
    """
    at = datetime.now(UTC)

    def beside_main(now: Now) -> Change:
        chosen = chosen_deployments(now.files, targets, not_for("resumed"))
        waiting = [key for key, wish in chosen.items() if _resumed(wish, at)]
        paused = verbs.present(now, PAUSE, chosen)
        change = verbs.begin(now, RESUME, waiting, at=at.timestamp())
        operations = {**dict.fromkeys(paused.values()), **change.operations}
        return Change(change.title, results(chosen, {*paused, *waiting}), operations)

    def in_main(files: Files) -> Any:
        return _edited(files, targets, lambda wish: _resumed(wish, at), "resumed")

    landed, ended = wish_or_operation(
        settings, how, RESUME, PAUSE, "changes go on", beside_main, in_main, "Resume"
    )
    finish(settings, how, landed, {"configured": "resumed", **({"unchanged": "resumed"} if ended else {})})


def _resumed(wish: ModelDeployment, at: datetime) -> Fields:
    """Return the fields that let the changes of a deployment continue; none if nothing in its manifest holds them."""
    found: Fields = {("spec", "paused"): False} if wish.spec.paused else {}
    if wish.spec.strategy.canary is not None:
        moment = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found["spec", "strategy", "canary", "resumedAt"] = moment
    return found


def not_for(done: str, code: str = "NoRollout") -> Callable[[str], Refused]:
    """Return the refusal of other objects, with ``code``. ``done``: the word for the change."""

    def refused(other: str) -> Refused:
        if other.startswith("job/") and done == "restarted":
            return Refused(code, f"{other} is no deployment; run it again with: reconciler restart {other}")
        what = f"{other} cannot be {done}" if other else "no objects are selected"
        return Refused(code, f"{what}; this works for modeldeployments only")

    return refused


def _edited(files: Files, targets: Targets, fields: Callable[[ModelDeployment], Fields], done: str) -> Any:
    """Return the edit of ``main`` that sets fields of the chosen deployments."""
    from reconciler.source.editing import set_fields

    chosen = chosen_deployments(files, targets, not_for(done))
    return set_fields(files, {key: fields(wish) for key, wish in chosen.items()})
