"""`ci`: a workflow that validates, plans and rehearses each pull request, and the comment that it writes."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path, PurePosixPath

import click

from reconciler import __version__
from reconciler.cli.core.app import SuggestingGroup
from reconciler.errors import Conflict, Invalid

from .templates import FACTS, FORGES, edited, workflow

GIT_SECONDS = 10.0


@click.group(cls=SuggestingGroup)
def ci() -> None:
    """Review changes of a cluster repository in the pull requests of a forge.

    \b
    Examples:
      reconciler ci init github
      reconciler ci init forgejo --print
    """


@ci.command()
@click.argument("forge", type=click.Choice(list(FORGES)))
@click.option(
    "--dir",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Clone of the cluster repository.  [default: this folder]",
)
@click.option(
    "--manifests", default=".", show_default=True, help="Folder of the manifests in the repository."
)
@click.option("--force", is_flag=True, help="Replace a workflow that was edited.")
@click.option("--print", "shown", is_flag=True, help="Print the workflow, and write nothing.")
def init(forge: str, folder: Path, manifests: str, force: bool, shown: bool) -> None:
    """Write a workflow that reviews each pull request.

    It validates the manifests, plans the change against the running cluster or recorded facts, rehearses it on emulated
    Macs, and puts all of it into one comment. It installs this version of mlx-reconciler. After an upgrade run this again.

    \b
    Examples:
      reconciler ci init github
      reconciler ci init forgejo --manifests clusters/home
    """
    place = PurePosixPath(manifests)
    if place.is_absolute() or ".." in place.parts or not _plain(manifests):
        raise Invalid(
            f"--manifests {manifests!r}: expected a folder within the repository, such as clusters/home"
        )
    text = workflow(forge, __version__, str(place))
    if shown:
        click.echo(text, nl=False)
        return
    root = _root(folder)
    path = root / FORGES[forge].path
    before = path.read_text() if path.exists() else None
    if before is not None and edited(before) and not force:
        raise Conflict(f"{path} was edited; see what is new with --print, or replace it with --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    click.echo(f"{path} {'written' if before is None else 'unchanged' if before == text else 'updated'}")
    if not (root / FACTS).exists():
        click.echo(f"next: reconciler facts export -o {root / FACTS}, and commit both")


def _plain(name: str) -> bool:
    return all(character.isalnum() or character in "._-/ " for character in name)


def _root(folder: Path) -> Path:
    """Return the top folder of the repository that a folder is in. Raises ``Invalid``."""
    try:
        done = subprocess.run(
            ("git", "-C", str(folder), "rev-parse", "--show-toplevel"),
            capture_output=True, text=True, timeout=GIT_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise Invalid("git is not installed; print the workflow with --print") from None
    if done.returncode:
        raise Invalid(f"{folder.absolute()} is no clone of a repository; give one with --dir, or use --print")
    return Path(done.stdout.strip())


@ci.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--print", "shown", is_flag=True, help="Print the comment, and write nothing.")
def comment(folder: Path, shown: bool) -> None:
    """Write the comment of a pull request, or write it anew, from the files of a review in a folder.

    The workflow calls this. The files are validation.txt, plan.txt and rehearsal.md. The comment is also added to the
    summary of the job. A pull request of a fork gets only that, because its token may write nothing.

    \b
    Example:
      reconciler ci comment review --print
    """
    from .comment import PullRequest, composed, put, summarized

    if not folder.is_dir():
        raise Invalid(
            f"{folder} does not exist; the steps before write validation.txt, plan.txt and rehearsal.md there"
        )
    text = composed(folder)
    if shown:
        click.echo(text, nl=False)
        return
    pull = PullRequest.of_environment(os.environ)
    summarized(text)
    token = os.environ.get("GITHUB_TOKEN", "")
    if pull.fork or not token:
        why = "it comes from a fork" if pull.fork else "there is no GITHUB_TOKEN"
        click.echo(f"no comment on pull request {pull.number}, because {why}; the summary of the job has it")
        return
    asyncio.run(put(pull, token, text))
    click.echo(f"the comment of pull request {pull.number} is written")
