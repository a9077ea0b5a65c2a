"""`init`, `validate`, `apply`, `diff`: what concerns manifests. Every write is a commit."""

from __future__ import annotations

from typing import Any

import click

from .app import Settings
from .changing import (
    How,
    Landed,
    WritingCommand,
    carry_out,
    change,
    files_option,
    load_paths,
    note_not_running,
    prepare,
    present,
    refuse_watched_folder,
    report,
    subject,
    write_options,
)
from .kinds import full_name
from .output import output_option, print_json


@click.command()
@click.pass_obj
def init(settings: Settings) -> None:
    """Make the cluster repository, and say where to push to.

    \b
    Example:
      reconciler init
    """
    repo = prepare(settings)
    click.echo(f"cluster repository: {repo.path}")
    click.echo(f"clone it with:      git clone {repo.path}")
    click.echo(f"or push to it:      git remote add cluster {repo.path} && git push cluster HEAD:main")


@click.command()
@files_option(required=True)
@output_option()
@click.pass_obj
def validate(settings: Settings, paths: tuple[str, ...], output: str | None) -> None:
    """Check manifests without touching anything; no cluster is needed.

    \b
    Examples:
      reconciler validate -f manifests/
      cat llama.yaml | reconciler validate -f -
    """
    documents = load_paths(paths)
    if output == "json":
        print_json({"valid": True, "objects": [f"{d.key[0]}/{d.key[1]}" for d in documents]})
        return
    for document in documents:
        click.echo(f"{full_name(*document.key)} valid")


@click.command(cls=WritingCommand)
@files_option(required=True)
@write_options
@click.pass_obj
def apply(settings: Settings, paths: tuple[str, ...], how: How) -> None:
    """Commit manifests to the cluster repository.

    Objects that exist are replaced where they stand; the rest of their files is left as it is.

    \b
    Examples:
      reconciler apply -f manifests/
      reconciler apply -f llama.yaml --dry-run
      reconciler apply -f llama.yaml --dry-run=server     what the controller would do
    """
    from reconciler.source.editing import apply_documents

    incoming = load_paths(paths)
    landed = carry_out(
        settings, how, lambda files: apply_documents(files, incoming), subject("Apply"), prepare
    )
    report(how, landed)
    note_not_running(settings)


def commit_paths(repo: Any, paths: tuple[str, ...], message: str | None) -> Landed:
    """Land manifests in the repository as one commit."""
    from reconciler.source.editing import apply_documents

    incoming = load_paths(paths)
    return change(repo, lambda files: apply_documents(files, incoming), message or subject("Apply"))


@click.command()
@files_option(required=True)
@output_option()
@click.pass_obj
def diff(settings: Settings, paths: tuple[str, ...], output: str | None) -> int:
    """Show what an apply would change: exits with 0 for nothing, 1 for differences, more for errors.

    \b
    Example:
      reconciler diff -f manifests/
    """
    from reconciler.source.documents import load
    from reconciler.source.editing import diff as differences

    incoming = load_paths(paths)
    refuse_watched_folder(settings)
    _, files = present(settings)
    found = differences(load(files), incoming)
    if output == "json":
        print_json([{"kind": d.kind, "name": d.name, "action": d.action, "diff": d.text} for d in found])
    else:
        click.echo("".join(d.text for d in found), nl=False)
    return 1 if found else 0
