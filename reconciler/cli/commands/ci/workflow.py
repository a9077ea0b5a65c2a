"""`ci`: a workflow that validates, plans and rehearses each pull request, and the comment that it writes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shlex
import subprocess
from pathlib import Path, PurePosixPath

import click

from reconciler import __version__
from reconciler.cli.core.app import SuggestingGroup
from reconciler.cli.output.parsed import FOLDER
from reconciler.cli.output.typed import typed
from reconciler.errors import Conflict, Invalid

from .templates import FACTS, FORGES, Origin, edited, workflow

GIT_SECONDS = 10.0


@click.group(cls=SuggestingGroup)
def ci() -> None:
    """Review changes of a cluster repository in the pull requests of a forge.

    \b
    Examples:
      reconciler ci init github --wheel tools/mlx_reconciler-0.1.0-py3-none-any.whl
      reconciler ci init forgejo --require-hashes requirements.txt --print
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
@click.option("--wheel", metavar="FILE|URL", help="Install this wheel, a file of the repository or a URL.")
@click.option("--index-url", metavar="URL", help="Install this version from this index of your own.")
@click.option("--hash", "digest", metavar="SHA256", help="Hash of the wheel; computed for a file.")
@click.option(
    "--require-hashes",
    "requirements",
    metavar="FILE",
    help="Install from this requirements file of the repository, which has hashes.",
)
@click.option("--force", is_flag=True, help="Replace a workflow that was edited.")
@click.option("--print", "shown", is_flag=True, help="Print the workflow, and write nothing.")
def init(forge: str, folder: Path, manifests: str, force: bool, shown: bool, **given: str | None) -> None:
    """Write a workflow that reviews each pull request.

    It validates the manifests, plans the change against the running cluster or recorded facts, rehearses it on emulated
    Macs, and puts all of it into one comment. Name the source of this product: no public index has it, and a stranger may
    take its name there. Run this again after an upgrade.

    \b
    Examples:
      reconciler ci init github --wheel tools/mlx_reconciler-0.1.0-py3-none-any.whl
      reconciler ci init forgejo --manifests clusters/home --require-hashes requirements.txt
    """
    if not _within(manifests):
        raise Invalid(
            f"--manifests {manifests!r}: expected a folder within the repository, such as clusters/home"
        )
    text = workflow(
        forge,
        __version__,
        _origin(folder if shown else _root(folder), **given),
        str(PurePosixPath(manifests)),
    )
    if shown:
        click.echo(text, nl=False)
        return
    root = _root(folder)
    path = root / FORGES[forge].path
    before = path.read_text(encoding="utf-8") if path.exists() else None
    if before is not None and edited(before) and not force:
        raise Conflict(f"{path} was edited; see what is new with --print, or replace it with --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    click.echo(f"{path} {'written' if before is None else 'unchanged' if before == text else 'updated'}")
    if not (root / FACTS).exists():
        click.echo(
            typed(f"next: reconciler facts export -o {shlex.quote(str(root / FACTS))}, and commit both")
        )


def _within(path: str) -> bool:
    """Return whether a path stays in the repository, and has no character with a meaning for a shell or YAML."""
    place = PurePosixPath(path)
    plain = all(character.isalnum() or character in "._-+/ " for character in path)
    return plain and not place.is_absolute() and ".." not in place.parts and not path.startswith("-")


def _origin(
    folder: Path, wheel: str | None, index_url: str | None, digest: str | None, requirements: str | None
) -> Origin:
    """Return the source of the product for the workflow. Raises ``Invalid`` with the missing option."""
    given = [each for each in (wheel, index_url, requirements) if each is not None]
    if len(given) != 1:
        raise Invalid(
            "say where the workflow gets reconciler from, by one of: --wheel FILE|URL, --index-url URL, or --require-hashes"
            " FILE; no public index has it, and anybody who takes its name there could run code in your pull requests"
        )
    if requirements is not None:
        return Origin(requirements=_file(folder, "--require-hashes", requirements))
    if wheel is not None and "://" not in wheel:
        content = (folder / _file(folder, "--wheel", wheel)).read_bytes()
        return Origin(wheel=wheel, digest=_checked(digest, hashlib.sha256(content).hexdigest()))
    option, url = ("--wheel", wheel) if wheel is not None else ("--index-url", index_url or "")
    if not re.fullmatch(r"https://[!-~]+", url) or set(url) & set("'\"`\\\\$"):
        raise Invalid(f"{option} {url}: expected a URL that begins with https://")
    if digest is None:
        raise Invalid(
            f"{option} {url}: give the hash of the wheel too: --hash $(sha256sum FILE.whl | cut -c 1-64)"
        )
    return Origin(wheel or "", index_url or "", __version__, _checked(digest, digest.removeprefix("sha256:")))


def _file(folder: Path, option: str, path: str) -> str:
    """Return the path of a file in the repository. Raises ``Invalid``."""
    if not _within(path) or not (folder / path).is_file():
        raise Invalid(
            f"{option} {path}: expected a file of the repository, by its path there; the forge's machine has no other"
        )
    return path


def _checked(given: str | None, digest: str) -> str:
    """Return a SHA-256 in hexadecimal. Raises ``Invalid`` if it is none, or differs from the given one."""
    wanted = digest if given is None else given.removeprefix("sha256:").lower()
    if not re.fullmatch(r"[0-9a-f]{64}", wanted):
        raise Invalid(f"--hash {given}: expected the SHA-256 of the wheel, 64 hexadecimal digits")
    if wanted != digest.lower():
        raise Invalid(f"--hash {given}: the file has another one, {digest}")
    return wanted


def _root(folder: Path) -> Path:
    """Return the top folder of the repository that a folder is in. Raises ``Invalid``."""
    try:
        done = subprocess.run(
            ("git", "-C", str(folder), "rev-parse", "--show-toplevel"),
            capture_output=True, encoding="utf-8", errors="replace", timeout=GIT_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise Invalid("git is not installed; print the workflow with --print") from None
    if done.returncode:
        raise Invalid(f"{folder.absolute()} is no clone of a repository; give one with --dir, or use --print")
    return Path(done.stdout.strip())


@ci.command()
@click.argument("folder", type=FOLDER)
@click.option("--print", "shown", is_flag=True, help="Print the comment, and write nothing.")
def comment(folder: Path, shown: bool) -> None:
    """Write the comment of a pull request, or replace it, from the files of a review in a folder.

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
