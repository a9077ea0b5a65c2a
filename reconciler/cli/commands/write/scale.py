"""`scale`: set the number of replicas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import Files, Landed, WritingCommand, carry_out, report, subject
from reconciler.cli.core.operations import (
    Change,
    HowLong,
    Now,
    operate,
    operation_options,
    present_operations,
)
from reconciler.cli.core.targets import Key, Targets, labels_of, missing_all, target_options
from reconciler.cli.core.waiting import until_read
from reconciler.cli.output.typed import typed
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
        there = labels_of(files)
        chosen, missing = targets.of_kind(DEPLOYMENT).choose(there)
        if missing:
            raise missing_all(missing, there)
        _check_scalable(chosen)
        return chosen

    def for_a_while(now: Now) -> Change:
        chosen = chosen_of(now.files)
        _compare(_replicas(now, chosen), current_replicas)
        return verbs.scale(now, chosen, replicas)

    def for_good(files: Files) -> Any:
        chosen = chosen_of(files)
        _compare({key: wish for key, wish in _wishes(files).items() if key in chosen}, current_replicas)
        return verbs.scale_for_good(files, chosen, replicas)

    if how.until is not None or mirrored(settings):
        landed = operate(settings, how, for_a_while)
        if how.until is None and not how.dry:
            names = " ".join(_operation(result) for result in landed.results)
            text = f"note: main is a mirror, so this is an operation; to undo it: reconciler undo {names}"
            click.echo(typed(text), err=True)
    else:
        wish = replace(how, message=how.reason or None)
        landed = carry_out(
            settings, wish, for_good, lambda changed: f"{subject('Scale')(changed)} to {replicas}"
        )
        _end_earlier(settings, how, landed)
    report(how, landed, {"configured": "scaled", "unchanged": "scaled"})
    until_read(settings, how, landed)


def mirrored(settings: Settings) -> bool:
    """Return whether ``main`` of the cluster repository is a mirror."""
    from reconciler.source.git.repository import ClusterRepo

    return (settings.repo / "HEAD").exists() and bool(ClusterRepo(settings.repo).mirrored())


def _operation(result: Any) -> str:
    from reconciler.resources.operation import operation_name

    return operation_name("scale", result.kind, result.name)


def _end_earlier(settings: Settings, how: HowLong, landed: Landed) -> None:
    """Undo earlier operations that would still hide the new number in main."""
    names = {_operation(result): (result.kind, result.name) for result in landed.results}
    present = present_operations(settings)
    if how.dry or not names.keys() & present.keys():
        return

    def decide(now: Now) -> Change:
        return verbs.end_scaling(now, names.values())

    ended = operate(settings, HowLong(reason=verbs.MANIFESTS_SAY), decide)
    for result in ended.results:
        click.echo(f"note: the operation {_operation(result)} was undone by this", err=True)


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
    from reconciler.resources.operation import operation_name

    found = {}
    for key, wish in _wishes(now.files).items():
        operation = now.operations.get(operation_name("scale", *key))
        asked = operation.spec.replicas if operation is not None else None
        found[key] = wish if asked is None else asked
    return {key: found[key] for key in chosen}


def _compare(found: dict[Key, int], expected: int | None) -> None:
    """Raise ``Conflict`` if a deployment does not have the expected number of replicas."""
    for (_, name), number in found.items():
        if expected not in (None, number):
            raise Conflict(f"expected replicas of {name} to be {expected}, was {number}")


def _check_scalable(chosen: list[Key]) -> None:
    """Raise ``Refused`` for objects without replicas, and if none is selected."""
    if not chosen:
        raise Refused("NotFound", f"no objects are selected; {listing('all')}")
    wrong = next((key for key in chosen if key[0] != DEPLOYMENT), None)
    if wrong is not None:
        raise Refused(
            "NotScalable", f"{wrong[0].lower()}/{wrong[1]} has no replicas; only modeldeployments do"
        )
