"""`scale`: set the number of replicas."""

from __future__ import annotations

from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import Files, WritingCommand, report, subject
from reconciler.cli.core.operations import Change, HowLong, Now, operation_options, wish_or_operation
from reconciler.cli.core.targets import Key, Targets, labels_of, target_options
from reconciler.cli.core.waiting import until_read
from reconciler.errors import Conflict, Invalid, Refused, listing
from reconciler.source.operating import verbs

DEPLOYMENT = "ModelDeployment"


class _Replicas(click.ParamType[int]):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return verbs.replicas_of(str(value))
        except Invalid as error:
            self.fail(str(error), param, ctx)


@click.command(cls=WritingCommand)
@target_options
@click.option(
    "--replicas", type=_Replicas(), required=True, metavar="N", help="Number of replicas, from 0 to 64."
)
@click.option(
    "--current-replicas",
    type=click.IntRange(0),
    metavar="M",
    help="Scale only if this is the current number.",
)
@operation_options()
@click.pass_obj
def scale(
    settings: Settings, targets: Targets, how: HowLong, replicas: int, current_replicas: int | None
) -> None:
    """Set the number of replicas of deployments.

    A commit to main changes this field and nothing else. With --for or --until, or if main is a mirror, it is an
    operation: main stays as it is, and applies again after the end, or after `reconciler undo`.

    \b
    Examples:
      reconciler scale tiny --replicas=2
      reconciler scale tiny --replicas=3 --for 2h --reason "many visitors"
      reconciler scale deployment tiny --replicas=0 --current-replicas=1
      reconciler scale deployments --all --replicas=1 --dry-run=server
    """

    def chosen_of(files: Files) -> list[Key]:
        return targets.only(DEPLOYMENT, labels_of(files), _not_scalable)

    def for_a_while(now: Now) -> Change:
        chosen = chosen_of(now.files)
        _compare(_replicas(now, chosen), current_replicas)
        return verbs.scale(now, chosen, replicas)

    def for_good(files: Files) -> Any:
        chosen = chosen_of(files)
        _compare({key: wish for key, wish in _wishes(files).items() if key in chosen}, current_replicas)
        return verbs.scale_for_good(files, chosen, replicas)

    def message(changed: tuple[Any, ...]) -> str:
        return f"{subject('Scale')(changed)} to {replicas}"

    landed, _ = wish_or_operation(
        settings, how, "scale", "scale", verbs.MANIFESTS_SAY, for_a_while, for_good, message
    )
    report(how, landed, {"configured": "scaled", "unchanged": "scaled"})
    until_read(settings, how, landed)


def _wishes(files: Files) -> dict[Key, int]:
    """Return the number of replicas of each deployment in ``main``."""
    from reconciler.resources import ModelDeployment
    from reconciler.source.yaml.documents import load

    manifests = (document.manifest for document in load(files))
    return {
        (DEPLOYMENT, each.metadata.name): each.spec.replicas
        for each in manifests
        if isinstance(each, ModelDeployment)
    }


def _replicas(now: Now, chosen: list[Key]) -> dict[Key, int]:
    """Return the present number of replicas of each chosen deployment."""
    names, wishes = verbs.present(now, "scale", chosen), _wishes(now.files)
    asked = {key: now.operations[name].spec.replicas for key, name in names.items()}
    return {key: wishes[key] if (number := asked.get(key)) is None else number for key in chosen}


def _compare(found: dict[Key, int], expected: int | None) -> None:
    """Raise ``Conflict`` if a deployment does not have the expected number of replicas."""
    for (_, name), number in found.items():
        if expected not in (None, number):
            raise Conflict(f"expected replicas of {name} to be {expected}, was {number}")


def _not_scalable(other: str) -> Refused:
    if not other:
        return Refused("NotFound", f"no objects are selected; {listing('all')}")
    return Refused("NotScalable", f"{other} has no replicas; only modeldeployments do")
