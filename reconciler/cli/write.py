"""`init`, `validate`, `apply`, `diff`: what concerns manifests. Every write is a commit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from reconciler.errors import Conflict, Invalid, Unreachable
from reconciler.wire.admin import ShowStatus

from .app import Settings
from .client import ask
from .kinds import full_name
from .output import output_option, print_json

COMMITS_TRIED = 5

files_option = click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    help="A file, a folder with YAML files, or - for standard input; may be repeated.",
)


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


def prepare(settings: Settings) -> Any:
    """The cluster repository of a home, made with the home where they are missing."""
    from reconciler.bootstrap import Home
    from reconciler.source import hooks
    from reconciler.source.git import ClusterRepo

    Home(settings.home).create()
    return ClusterRepo.create(settings.repo, hooks.command())


@click.command()
@files_option
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


def load_paths(paths: tuple[str, ...]) -> tuple[Any, ...]:
    """Manifests from files and folders. Raises ``InvalidManifests`` with everything that is wrong."""
    from reconciler.source.documents import load
    from reconciler.source.files import read_paths

    documents = load(read_paths(paths, lambda: sys.stdin.buffer.read()))
    if not documents:
        raise Invalid(f"no manifests in {', '.join(paths)}")
    return documents


@click.command()
@files_option
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@click.option("-m", "--message", help="The commit's message.")
@output_option()
@click.pass_obj
def apply(
    settings: Settings, paths: tuple[str, ...], dry_run: bool, message: str | None, output: str | None
) -> None:
    """Commit manifests to the cluster repository.

    Objects that exist are replaced where they stand; the rest of their files is left as it is.

    \b
    Examples:
      reconciler apply -f manifests/
      reconciler apply -f llama.yaml --dry-run
    """
    refuse_watched_folder(settings)
    if dry_run:
        revision, results = _foreseen(settings, paths)
    else:
        revision, results = commit_paths(prepare(settings), paths, message)
    if output == "json":
        objects = [{"kind": r.kind, "name": r.name, "action": r.action} for r in results]
        print_json({"revision": revision, "dryRun": dry_run, "objects": objects})
        return
    for result in results:
        click.echo(f"{full_name(result.kind, result.name)} {result.action}{' (dry run)' if dry_run else ''}")
    if not running(settings):
        click.echo("note: the controller is not running; start it with: reconciler up", err=True)


def commit_paths(repo: Any, paths: tuple[str, ...], message: str | None) -> tuple[str | None, Any]:
    """Land manifests in the repository as one commit; the new revision and what became of each object.

    Where somebody else commits meanwhile it is done again on top of that, a few times.
    """
    from reconciler.source.editing import apply_documents
    from reconciler.source.git import author_of

    incoming = load_paths(paths)
    for attempt in range(1, COMMITS_TRIED + 1):
        head, files = _in_force(repo)
        edit = apply_documents(files, incoming)
        if not edit.changes:
            return head, edit.results
        try:
            author = author_of(Path.cwd())
            return repo.commit(head, edit.changes, message or _subject(edit.results), author), edit.results
        except Conflict:
            if attempt == COMMITS_TRIED:
                raise
    raise AssertionError("the loop returns or raises")


def _subject(results: Any) -> str:
    changed = [f"{result.kind.lower()}/{result.name}" for result in results if result.action != "unchanged"]
    return f"Apply {', '.join(changed[:5])}{' and more' if len(changed) > 5 else ''}"


def _in_force(repo: Any) -> tuple[str | None, dict[str, bytes]]:
    head = repo.head()
    return head, repo.read(head) if head else {}


def _present(settings: Settings) -> tuple[str | None, dict[str, bytes]]:
    """Revision and files of the repository; nothing where there is none, and none is made."""
    from reconciler.source.git import ClusterRepo

    if not (settings.repo / "HEAD").exists():
        return None, {}
    return _in_force(ClusterRepo(settings.repo))


def _foreseen(settings: Settings, paths: tuple[str, ...]) -> tuple[str | None, Any]:
    from reconciler.source.editing import apply_documents

    incoming = load_paths(paths)
    revision, files = _present(settings)
    return revision, apply_documents(files, incoming).results


@click.command()
@files_option
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
    _, files = _present(settings)
    found = differences(load(files), incoming)
    if output == "json":
        print_json([{"kind": d.kind, "name": d.name, "action": d.action, "diff": d.text} for d in found])
    else:
        click.echo("".join(d.text for d in found), nl=False)
    return 1 if found else 0


def running(settings: Settings) -> dict[str, Any] | None:
    """What the controller says of itself; None when there is none."""
    try:
        status: dict[str, Any] = ask(settings.socket, ShowStatus())
    except Unreachable:
        return None
    return status


def refuse_watched_folder(settings: Settings) -> None:
    """A commit to the repository would have no effect while a folder is watched instead."""
    status = running(settings)
    if status and not status["source"].startswith("git "):
        raise Invalid(f"the controller reads {status['source']}: edit the files there, it notices by itself")
