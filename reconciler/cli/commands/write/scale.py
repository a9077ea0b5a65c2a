"""`scale`: set the number of replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import Files, WritingCommand
from reconciler.cli.core.operations import HowLong, operation_options, wish_or_operation
from reconciler.cli.core.targets import Key, Targets, labels_of, target_options
from reconciler.cli.core.waiting import finish
from reconciler.cli.output.parsed import Parsed
from reconciler.errors import Conflict, Refused, listing
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Change, Now, titled

if TYPE_CHECKING:
    from reconciler.resources import ModelDeployment

DEPLOYMENT = "ModelDeployment"


@click.command(cls=WritingCommand)
@target_options
@click.option(
    "--replicas",
    type=Parsed("number", verbs.replicas_of),
    required=True,
    metavar="N",
    help="Number of replicas, from 0 to 64.",
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

    def for_a_while(now: Now) -> Change:
        chosen = chosen_deployments(now.files, targets, _not_scalable)
        names = verbs.present(now, "scale", chosen)
        asked = {key: now.operations[name].spec.replicas for key, name in names.items()}
        _compare(chosen, asked, current_replicas)
        return verbs.scale(now, chosen, replicas)

    def for_good(files: Files) -> Any:
        chosen = chosen_deployments(files, targets, _not_scalable)
        _compare(chosen, {}, current_replicas)
        return verbs.scale_for_good(files, chosen, replicas)

    def message(changed: tuple[Any, ...]) -> str:
        return f"{titled('Scale', changed)} to {replicas}"

    landed, _ = wish_or_operation(
        settings, how, "scale", "scale", verbs.MANIFESTS_SAY, for_a_while, for_good, message
    )
    finish(settings, how, landed, {"configured": "scaled", "unchanged": "scaled"})


def chosen_deployments(
    files: Files, targets: Targets, refused: Callable[[str], Refused]
) -> dict[Key, ModelDeployment]:
    """Return the chosen deployments of ``main``. ``refused`` is what ``Targets.only`` raises."""
    from reconciler.resources import ModelDeployment
    from reconciler.source.yaml.documents import all_of

    chosen, there = targets.only(DEPLOYMENT, labels_of(files), refused), all_of(files, ModelDeployment)
    return {key: there[key[1]] for key in chosen}


def _compare(
    chosen: Mapping[Key, ModelDeployment], asked: Mapping[Key, int | None], expected: int | None
) -> None:
    """Raise ``Conflict`` if a deployment does not have the expected number of replicas. ``asked``: those of operations."""
    for key, wish in chosen.items():
        number = wish.spec.replicas if asked.get(key) is None else asked[key]
        if expected not in (None, number):
            raise Conflict(f"expected replicas of {key[1]} to be {expected}, was {number}")


def _not_scalable(other: str) -> Refused:
    if not other:
        return Refused("NotFound", f"no objects are selected; {listing('all')}")
    return Refused("NotScalable", f"{other} has no replicas; only modeldeployments do")
