"""`rollout pause` and `rollout resume`: let changes of a deployment wait, and let them continue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

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
    results,
)
from reconciler.cli.core.targets import Key, Targets, labels_of, missing_all, target_options
from reconciler.cli.core.waiting import until_read
from reconciler.cli.output.typed import typed
from reconciler.errors import Refused

from .scale import DEPLOYMENT, mirrored

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
        chosen = _chosen(now.files, targets, "paused")
        made = {key: now.operation(PAUSE, key) for key in chosen}
        new = {key: each for key, each in made.items() if not now.asked(each)}
        ended = dict.fromkeys(name for key in chosen if (name := _named(RESUME, key)) in now.operations)
        written = {each.metadata.name: each for each in new.values()}
        return Change("Pause", results(chosen, new), {**ended, **written})

    def for_good(files: Files) -> Any:
        return _edited(files, targets, lambda _: {("spec", "paused"): True}, "paused")

    if how.until is not None or mirrored(settings):
        landed = operate(settings, how, for_a_while)
        if how.until is None and not how.dry:
            _say_how_to_undo(PAUSE, landed.results)
    else:
        landed = carry_out(settings, replace(how, message=how.reason or None), for_good, subject("Pause"))
        _end(settings, how, RESUME, landed, "main says that changes wait")
    report(how, landed, {"configured": "paused"})
    until_read(settings, how, landed)


@click.command(cls=WritingCommand)
@target_options
@operation_options(ends=False)
@click.pass_obj
def resume(settings: Settings, targets: Targets, how: HowLong) -> None:
    """Go on with changes of deployments that are paused, or that wait for their canaries.

    Ends the effect of `rollout pause`. A commit changes the deployments in main; if main is a mirror, an operation does so
    instead.

    \b
    Examples:
      reconciler rollout resume deployment/tiny
      reconciler rollout resume deployments --all
    """
    at = datetime.now(UTC)

    def beside_main(now: Now) -> Change:
        chosen = _chosen(now.files, targets, "resumed")
        wishes = _wishes(now.files)
        paused = {key: name for key in chosen if (name := _named(PAUSE, key)) in now.operations}
        waiting = [key for key in chosen if _resumed(wishes[key], at)]
        made = {
            each.metadata.name: each
            for key in waiting
            for each in [now.operation(RESUME, key, at.timestamp())]
        }
        return Change(
            "Resume", results(chosen, {*paused, *waiting}), {**dict.fromkeys(paused.values()), **made}
        )

    def in_main(files: Files) -> Any:
        return _edited(files, targets, lambda wish: _resumed(wish, at), "resumed")

    if mirrored(settings):
        landed = operate(settings, how, beside_main)
        present = present_operations(settings)
        made = [result for result in landed.results if _named(RESUME, _key(result)) in present]
        if not how.dry:
            _say_how_to_undo(RESUME, made)
        ended = False
    else:
        landed = carry_out(settings, replace(how, message=how.reason or None), in_main, subject("Resume"))
        ended = _end(settings, how, PAUSE, landed, "changes continue")
    report(how, landed, {"configured": "resumed", **({"unchanged": "resumed"} if ended else {})})
    until_read(settings, how, landed)


def _resumed(wish: ModelDeployment, at: datetime) -> Fields:
    """Return the fields that let the changes of a deployment continue; none if nothing in its manifest holds them."""
    found: Fields = {("spec", "paused"): False} if wish.spec.paused else {}
    if wish.spec.strategy.canary is not None:
        moment = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found["spec", "strategy", "canary", "resumedAt"] = moment
    return found


def _chosen(files: Files, targets: Targets, done: str) -> list[Key]:
    """Return the chosen deployments. ``done``: the word for the change."""
    there = labels_of(files)
    chosen, missing = targets.of_kind(DEPLOYMENT).choose(there)
    if missing:
        raise missing_all(missing, there)
    wrong = next((key for key in chosen if key[0] != DEPLOYMENT), None)
    if wrong is not None or not chosen:
        what = f"{wrong[0].lower()}/{wrong[1]} cannot be {done}" if wrong else "no objects are selected"
        raise Refused("NoRollout", f"{what}; this works for modeldeployments only")
    return chosen


def _wishes(files: Files) -> dict[Key, ModelDeployment]:
    """Return the deployments of ``main``."""
    from reconciler.resources import ModelDeployment
    from reconciler.source.yaml.documents import load

    manifests = (document.manifest for document in load(files))
    return {(m.kind, m.metadata.name): m for m in manifests if isinstance(m, ModelDeployment)}


def _edited(files: Files, targets: Targets, fields: Callable[[ModelDeployment], Fields], done: str) -> Any:
    """Return the edit of ``main`` that sets fields of the chosen deployments."""
    from reconciler.source.editing import set_fields

    chosen, wishes = _chosen(files, targets, done), _wishes(files)
    return set_fields(files, {key: fields(wishes[key]) for key in chosen})


def _named(verb: str, key: Key) -> str:
    from reconciler.resources.operation import operation_name

    return operation_name(verb, *key)


def _key(result: Any) -> Key:
    return result.kind, result.name


def _say_how_to_undo(verb: str, made: Iterable[Any]) -> None:
    names = " ".join(_named(verb, _key(result)) for result in made)
    if names:
        text = f"note: main is a mirror, so this is an operation; to undo it: reconciler undo {names}"
        click.echo(typed(text), err=True)


def _end(settings: Settings, how: HowLong, verb: str, landed: Landed, why: str) -> bool:
    """End operations of a verb on the objects of a commit to main; return whether there were any."""
    names = {_named(verb, _key(result)): _key(result) for result in landed.results}
    if how.dry or not names.keys() & present_operations(settings).keys():
        return False

    def decide(now: Now) -> Change:
        ended = [name for name in names if name in now.operations]
        keys = [names[name] for name in ended]
        return Change(f"End the {verb} of", results(keys, keys), dict.fromkeys(ended))

    for result in operate(settings, HowLong(reason=why), decide).results:
        click.echo(f"note: the operation {_named(verb, _key(result))} was undone by this", err=True)
    return True
