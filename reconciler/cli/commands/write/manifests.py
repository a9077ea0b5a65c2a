"""`init`, `apply`, `diff`: work with manifests. Every write is a commit."""

from __future__ import annotations

from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.commits import (
    Files,
    How,
    Landed,
    WritingCommand,
    carry_out,
    prepare,
    present,
    preview,
    refuse_watched_folder,
    report,
    write_options,
)
from reconciler.cli.core.given import files_option, load_given, load_paths, read_given, some
from reconciler.cli.core.nearby import asked
from reconciler.cli.core.waiting import until_read
from reconciler.cli.output.form import output_option, print_body
from reconciler.errors import Refused, few_names
from reconciler.wire import answers

FILES_SHOWN = 5
AGAIN = "make the plan again: reconciler plan -f DIR --save"


@click.command()
@click.pass_obj
def init(settings: Settings) -> None:
    """Create the cluster repository, and print the address to push to.

    \b
    Example:
      reconciler init
    """
    repo = prepare(settings)
    click.echo(f"cluster repository: {repo.path}")
    click.echo(f"clone it with:      git clone {repo.path}")
    click.echo(f"or push to it:      git remote add cluster {repo.path} && git push cluster HEAD:main")


@click.command(cls=WritingCommand)
@files_option(required=False)
@click.option(
    "--plan", "saved", metavar="ID", help="Commit exactly the change that `plan -f DIR --save` showed."
)
@write_options
@click.pass_obj
def apply(settings: Settings, paths: tuple[str, ...], saved: str | None, how: How) -> None:
    """Commit manifests to the cluster repository.

    Existing objects are replaced in their files, and the rest of these files stays unchanged. With --dry-run=server,
    exits with 1 if the commit would be held, or if the controller would refuse an object of these manifests. With
    --plan, exits with 1 if the saved plan would now have other effects.

    \b
    Examples:
      reconciler apply -f manifests/
      reconciler apply -f llama.yaml --dry-run
      reconciler apply -f llama.yaml --dry-run=server     show what the controller would do
      reconciler apply --plan 3f2a9c                      make the change of a saved plan
    """
    if bool(paths) == bool(saved):
        raise click.UsageError("expected -f FILE, such as: reconciler apply -f manifests/; or --plan ID")
    if saved:
        landed = _carried_out(settings, how, saved)
        report(how, landed)
        until_read(settings, how, landed)
        return
    from reconciler.source.editing import apply_documents

    incoming = load_paths(paths)
    dangling: list[str] = []

    def decide(files: Files) -> Any:
        edit = apply_documents(files, incoming)
        dangling[:] = _dangling(edit.applied_to(files), incoming)
        return edit

    landed = carry_out(settings, how, decide, "Apply", prepare)
    report(how, landed)
    for text in dangling:
        click.echo(f"warning: {text}", err=True)
    until_read(settings, how, landed)
    if landed.refused:
        raise Refused(
            "WouldRefuse", "the controller would hold or refuse this, as noted above; nothing was changed"
        )


def _carried_out(settings: Settings, how: How, saved: str) -> Landed:
    """Make the change of a saved plan. Raises ``Refused`` if its effects are no longer as shown."""
    from reconciler.cli.core import saved_plans
    from reconciler.source.editing import Edit, Result
    from reconciler.source.editing import diff as differences
    from reconciler.source.yaml.documents import load

    plan = saved_plans.read(saved, settings.cluster)

    def decide(files: Files) -> Any:
        before = prepare(settings).read(plan.base) if plan.base else {}
        others = sorted(name for name in plan.changes if files.get(name) != before.get(name))
        if others:
            raise Refused(
                "PlanOutdated",
                f"{few_names(others, FILES_SHOWN)} changed since plan {plan.id} was made; {AGAIN}",
            )
        edit = Edit(plan.files(), ())
        after = edit.applied_to(files)
        found = differences(load(files), load(after))
        differing = saved_plans.differences(plan, saved_plans.effects(preview(settings, after)))
        if differing:
            text = f"plan {plan.id} would no longer do what it has shown:\n  {differing}\n{AGAIN}"
            raise Refused("PlanOutdated", text)
        return Edit(plan.files(), tuple(Result(each.kind, each.name, each.action) for each in found))

    landed = carry_out(settings, how, decide, lambda _: plan.message, prepare)
    if not how.dry:
        saved_plans.forget(plan)
    return landed


def _dangling(files: Files, incoming: tuple[Any, ...]) -> list[str]:
    """Return warnings about missing objects that the applied ones refer to: they may be added later."""
    from reconciler.planning.placement.references import dangling
    from reconciler.source.yaml.documents import load
    from reconciler.state import Desired, ObjectKey

    desired = Desired.of("", (document.manifest for document in load(files)))
    return dangling(desired, {ObjectKey(*document.key) for document in incoming})


@click.command()
@files_option(required=True)
@output_option()
@click.pass_obj
def diff(settings: Settings, paths: tuple[str, ...], output: str | None) -> int:
    """Show what an apply would change.

    Exits with 0 without differences, with 1 for differences, and with more for errors.

    \b
    Example:
      reconciler diff -f manifests/
    """
    found = _differences(settings, paths)
    if output:
        print_body(found, output)
    else:
        click.echo("".join(each["diff"] for each in found), nl=False)
    return 1 if found else 0


def _differences(settings: Settings, paths: tuple[str, ...]) -> list[answers.ObjectChange]:
    from reconciler.wire.admin import Compare

    files = read_given(paths)
    answer = asked(settings, Compare, files)
    if answer is not None:
        some(answer["objects"], paths)
        return answer["items"]
    from reconciler.source.editing import diff as differences
    from reconciler.source.yaml.documents import load

    incoming = load_given(files, paths)
    refuse_watched_folder(settings)
    _, present_files = present(settings)
    return [each.body() for each in differences(load(present_files), incoming)]
