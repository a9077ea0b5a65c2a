"""`plan`, `version`: show the controller's plan, and the versions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from reconciler import __version__
from reconciler.cli.commands.write.approve import warn_if_held
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.commits import (
    present,
    preview,
    refuse_watched_folder,
    running,
)
from reconciler.cli.core.given import files_option, load_paths, read_given
from reconciler.cli.output.colour import Cell, painted
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.typed import typed
from reconciler.errors import Refused, few_names
from reconciler.source.operating.change import titled
from reconciler.wire import answers
from reconciler.wire.admin import ShowPlan, ShowStatus

from .facts import foreseen

REPLICAS_SHOWN = 8


@click.command()
@files_option(required=False)
@click.option(
    "--facts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With -f: plan with the facts in this file instead of those of a running cluster.",
)
@click.option(
    "--save",
    is_flag=True,
    help="With -f: keep the plan of `apply -f` with these manifests, for `apply --plan`.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 2 if there is something to do.")
@output_option()
@click.pass_obj
def plan(
    settings: Settings,
    paths: tuple[str, ...],
    facts: Path | None,
    save: bool,
    exit_code: bool,
    output: str | None,
) -> int:
    """Show what the controller would do now, what it waits for, and what it refuses.

    With -f, the plan is for these manifests instead of those in force, and also shows what they would remove. They must
    be the complete set. With --save, the plan is for the commit of `apply -f`, and is kept: `apply --plan ID` makes this
    change, if its effects are still the same.

    \b
    Examples:
      reconciler plan
      reconciler plan -o json
      reconciler plan -f manifests/
      reconciler plan -f manifests/ --facts .reconciler/facts.json
      reconciler plan -f llama.yaml --save
    """
    if save and (not paths or facts is not None):
        raise click.UsageError("--save needs manifests and a running cluster: reconciler plan -f FILE --save")
    if facts is not None and not paths:
        raise click.UsageError("--facts needs the manifests to plan for: reconciler plan -f DIR --facts FILE")
    if paths:
        saved = _saved(settings, paths) if save else None
        recorded = foreseen(read_given(paths), facts) if facts is not None else None
        body = saved or recorded or preview(settings, read_given(paths))
        planned = body["plan"]
        lines = list(_foreseen(body))
        if recorded:
            at, revision = recorded["facts"]["recordedAt"], recorded["facts"]["revision"]
            lines.insert(0, f"with the facts of {at}, when {revision[:10]} was in force")
        if saved:
            text = f"saved as {saved['id']}; to make this change: reconciler apply --plan {saved['id']}"
            lines.append(typed(text))
        print_body(body, output, lines)
    else:
        planned = ask(settings.socket, ShowPlan())
        count = 0 if output else ask(settings.socket, ShowStatus())["operationsInForce"]
        print_body(planned, output, [*_operations(count), *_planned(planned)])
    return 2 if exit_code and planned["steps"] else 0


def _saved(settings: Settings, paths: tuple[str, ...]) -> answers.SavedForeseen:
    """Return the plan for an apply of these manifests, with the id under which it is kept."""
    from reconciler.cli.core import saved_plans
    from reconciler.source.editing import apply_documents

    refuse_watched_folder(settings)
    base, files = present(settings)
    edit = apply_documents(files, load_paths(paths))
    if not edit.changes:
        raise Refused(
            "NothingToDo", "the cluster repository has these manifests already, so no plan was saved"
        )
    body = preview(settings, edit.applied_to(files))
    plan = saved_plans.planned(settings.cluster, base, edit.changes, titled("Apply", edit.results), body)
    saved_plans.save(plan)
    return {**body, "id": plan.id}


def _foreseen(body: answers.Foreseen) -> Iterator[str]:
    for name in body["removes"]:
        yield f"- {name}"
    if body.get("suspended"):
        yield typed(f"! {body['suspended']}")
    if body["held"]:
        removes = f"it removes {len(body['removes'])} of {body['of']} objects"
        why = removes if body["removes"] or not body.get("runs") else "it runs what nobody has permitted"
        yield f"! it would be held: {why} (approve needed)"
    for name in body["serving"]:
        yield f"! {name} serves now: its commit has to say Allow-Removal: {name.rpartition('/')[2]}"
    for job in body.get("runs", ()):  # older controllers do not say
        name = job["object"].rpartition("/")[2]
        yield typed(f"! it would run {job['text']}: its commit has to say Allow-Job: {name}")
    for text in body.get("tooLarge", ()):
        yield f"! no node could ever hold this: {text}"
    for change in body.get("changes", ()):
        yield f"* {change['object']}: {change['text']}"
    if (body["removes"] or body.get("changes")) and not any(body["plan"].values()):
        return
    yield from _planned(body["plan"])


def _operations(count: int) -> Iterator[str]:
    """Say how many operations change the cluster in addition to main."""
    if count:
        what = "an operation" if count == 1 else f"{count} operations"
        text = f"= cluster/main: differs from git by {what}; list them with: reconciler get operations"
        yield typed(text)


def _planned(body: answers.Planned) -> Iterator[str]:
    for step in body["steps"]:
        yield f"+ {step['object']}: {step['text']}"
    for mark, entries in ((Cell.of("~", "yellow"), body["waiting"]), (Cell.of("!", "red"), body["refused"])):
        for line in told_once(entries):
            yield f"{painted(mark, mark)} {typed(line)}"
    if not any(body.values()):
        yield "nothing to do"


def told_once(entries: Sequence[answers.Obstacle]) -> Iterator[str]:
    """Yield a line for each different message about an object, with the replicas concerned. The texts about jobs name the run."""
    said: dict[tuple[str, ...], list[str]] = {}
    for entry in entries:
        at = entry.get("until")
        until = f" until {at}" if at else ""
        replicas = said.setdefault((entry["object"], entry["text"], f"{entry['reason']}{until}"), [])
        if (replica := entry.get("replica")) and not entry["object"].startswith("job/"):
            replicas.append(replica.rpartition("/")[2])
    for (about, text, why), replicas in said.items():
        few = few_names(replicas, REPLICAS_SHOWN)
        which = f", replica{'s' if len(replicas) > 1 else ''} {few}" if replicas else ""
        yield f"{about}{which}: {text} ({why})"


@click.command()
@output_option()
@click.pass_obj
def version(settings: Settings, output: str | None) -> None:
    """Print the versions of this command and of the running controller.

    \b
    Example:
      reconciler version -o json
    """
    status = running(settings)
    body = {
        "client": __version__,
        "python": sys.version.split()[0],
        "controller": status["version"] if status else None,
        "revision": status["revision"] if status else None,
        "held": status.get("held") if status else None,
    }
    warn_if_held(status)
    lines = (
        f"reconciler {body['client']} (Python {body['python']})",
        f"controller {body['controller'] or 'is not running'}",
    )
    print_body(body, output, lines)
