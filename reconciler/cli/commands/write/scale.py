"""`scale`: set the number of replicas."""

from __future__ import annotations

from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import Files, How, WritingCommand, carry_out, report, subject, write_options
from reconciler.cli.core.targets import Key, Targets, labels_of, missing_all, target_options
from reconciler.cli.core.waiting import until_read
from reconciler.errors import Conflict, Refused, listing

DEPLOYMENT = "ModelDeployment"


@click.command(cls=WritingCommand)
@target_options
@click.option("--replicas", type=click.IntRange(0), required=True, metavar="N", help="Number of replicas.")
@click.option(
    "--current-replicas",
    type=click.IntRange(0),
    metavar="M",
    help="Scale only if this is the current number.",
)
@write_options
@click.pass_obj
def scale(
    settings: Settings, targets: Targets, how: How, replicas: int, current_replicas: int | None
) -> None:
    """Set the number of replicas of deployments.

    The commit changes this field and nothing else.

    \b
    Examples:
      reconciler scale deployment/tiny --replicas=2
      reconciler scale deployment tiny --replicas=0 --current-replicas=1
      reconciler scale deployments --all --replicas=1 --dry-run=server
    """

    def decide(files: Files) -> Any:
        from reconciler.resources import ModelDeployment
        from reconciler.source.editing import set_fields
        from reconciler.source.yaml.documents import load

        there = labels_of(files)
        chosen, missing = targets.choose(there)
        if missing:
            raise missing_all(missing, there)
        _check_scalable(chosen)
        for manifest in (document.manifest for document in load(files)):
            name = manifest.metadata.name
            if isinstance(manifest, ModelDeployment) and (DEPLOYMENT, name) in chosen:
                found = manifest.spec.replicas
                if current_replicas not in (None, found):
                    raise Conflict(f"expected replicas of {name} to be {current_replicas}, was {found}")
        return set_fields(files, {key: {("spec", "replicas"): replicas} for key in chosen})

    landed = carry_out(settings, how, decide, lambda results: f"{subject('Scale')(results)} to {replicas}")
    report(how, landed, {"configured": "scaled", "unchanged": "scaled"})
    until_read(settings, how, landed)


def _check_scalable(chosen: list[Key]) -> None:
    """Raise ``Refused`` for objects without replicas, and if none is selected."""
    if not chosen:
        raise Refused("NotFound", f"no objects are selected; {listing('all')}")
    wrong = next((key for key in chosen if key[0] != DEPLOYMENT), None)
    if wrong is not None:
        raise Refused(
            "NotScalable", f"{wrong[0].lower()}/{wrong[1]} has no replicas; only modeldeployments do"
        )
