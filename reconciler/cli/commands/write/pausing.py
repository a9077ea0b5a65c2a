"""`rollout pause` and `rollout resume`: let changes of a deployment wait, and go on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import Files, How, WritingCommand, carry_out, report, subject, write_options
from reconciler.cli.core.targets import Key, Targets, labels_of, missing_all, target_options
from reconciler.cli.core.waiting import until_read
from reconciler.errors import Refused

from .scale import DEPLOYMENT

if TYPE_CHECKING:
    from reconciler.resources import ModelDeployment

Fields = dict[tuple[str, ...], Any]


@click.command(cls=WritingCommand)
@target_options
@write_options
@click.pass_obj
def pause(settings: Settings, targets: Targets, how: How) -> None:
    """Let changes of deployments wait, by a commit that sets spec.paused.

    What runs goes on. A group that ends is formed again as it was.

    \b
    Examples:
      reconciler rollout pause deployment/tiny
      reconciler rollout pause deployments --all
    """
    _commit(settings, targets, how, lambda _: {("spec", "paused"): True}, ("Pause", "paused"))


@click.command(cls=WritingCommand)
@target_options
@write_options
@click.pass_obj
def resume(settings: Settings, targets: Targets, how: How) -> None:
    """Go on with changes of deployments that are paused, or that wait for their canaries.

    \b
    Examples:
      reconciler rollout resume deployment/tiny
      reconciler rollout resume deployments --all
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def fields(deployment: ModelDeployment) -> Fields:
        found: Fields = {("spec", "paused"): False} if deployment.spec.paused else {}
        if deployment.spec.strategy.canary is not None:
            found["spec", "strategy", "canary", "resumedAt"] = now
        return found

    _commit(settings, targets, how, fields, ("Resume", "resumed"))


def _commit(
    settings: Settings,
    targets: Targets,
    how: How,
    fields: Callable[[ModelDeployment], Fields],
    words: tuple[str, str],
) -> None:
    """Write fields of deployments. ``words``: what the commit does, and what is said of each object afterwards."""

    def decide(files: Files) -> Any:
        from reconciler.resources import ModelDeployment
        from reconciler.source.editing import set_fields
        from reconciler.source.yaml.documents import load

        there = labels_of(files)
        chosen, missing = targets.of_kind(DEPLOYMENT).choose(there)
        if missing:
            raise missing_all(missing, there)
        _check(chosen, words[1])
        manifests = {(each.manifest.kind, each.manifest.metadata.name): each.manifest for each in load(files)}
        found = ((key, manifests[key]) for key in chosen)
        return set_fields(files, {key: fields(m) for key, m in found if isinstance(m, ModelDeployment)})

    landed = carry_out(settings, how, decide, subject(words[0]))
    report(how, landed, {"configured": words[1]})
    until_read(settings, how, landed)


def _check(chosen: list[Key], done: str) -> None:
    wrong = next((key for key in chosen if key[0] != DEPLOYMENT), None)
    if wrong is not None or not chosen:
        what = f"{wrong[0].lower()}/{wrong[1]} cannot be {done}" if wrong else "no objects are selected"
        raise Refused("NoRollout", f"{what}; this works for modeldeployments only")
