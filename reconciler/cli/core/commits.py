"""Commits changes of manifests to the cluster repository: every command that writes uses this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.typed import typed
from reconciler.errors import Invalid, Refused, Unreachable, few_names
from reconciler.source.operating.change import titled
from reconciler.wire import answers
from reconciler.wire.admin import Preview, ShowStatus

from .app import Settings
from .client import ask
from .gathered import gathered
from .kinds import full_name
from .shipped import ANY_KIND

if TYPE_CHECKING:
    from reconciler.resources import Access

REMOVED_SHOWN = 10
"""Most objects to name in a line about a revision's removals; `-o json` has all."""
HELD = "cluster/main"
"""The object of entries that concern all manifests together."""
OUTPUT = output_option("name", instead_of="lines")
DRY_RUN = click.option(
    "--dry-run",
    type=click.Choice(("none", "client", "server")),
    default="none",
    metavar="[=none|client|server]",
    help="Show what would happen, and change nothing; server also asks the controller.",
)

Files = Mapping[str, bytes]
Decide = Callable[[Files], Any]
"""From the repository's files to a ``source.editing.Edit``; called again after a concurrent commit."""

Message = str | Callable[[tuple[Any, ...]], str]
"""The verb of a commit's subject, or a function from the results to the message."""


class WritingCommand(click.Command):
    """A command whose bare `--dry-run` means `--dry-run=client`, even if a word follows.

    An object that it does not find may still be in force, if a held revision removes it: a note says so.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = args[: args.index("--")] if "--" in args else args
        bare = ["--dry-run=client" if word == "--dry-run" else word for word in words]
        return super().parse_args(ctx, bare + args[len(words) :])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Refused as error:
            if error.code == "NotFound":
                with suppress(Unreachable):
                    if held := ask(ctx.obj.socket, ShowStatus()).get("held"):
                        click.echo(typed(f"note: {held['text']}"), err=True)
            raise


@dataclass(frozen=True, slots=True)
class How:
    """The options of all writing commands."""

    dry_run: str = "none"
    message: str | None = None
    output: str | None = None

    @property
    def dry(self) -> bool:
        return self.dry_run != "none"

    @property
    def suffix(self) -> str:
        return {"none": "", "client": " (dry run)", "server": " (server dry run)"}[self.dry_run]


write_options = gathered(
    "how", How, DRY_RUN, click.option("-m", "--message", help="The commit's message."), OUTPUT
)


@dataclass(frozen=True, slots=True)
class Landed:
    """The result of a change: its revision, and what happened to each object."""

    revision: str | None
    results: tuple[Any, ...]
    refused: bool = False
    """True if the controller was asked, and would refuse the change."""
    operation: bool = False
    """True for a commit of the operations, false for one of ``main``."""


def change(repo: Any, decide: Decide, message: Message) -> Landed:
    """Commit the edit that ``decide`` makes of the repository's files; the first commit also has the schema for editors.

    After a concurrent commit, decides again on top of it, a few times; then raises ``Conflict``.
    """
    from reconciler.source.editing import SCHEMA
    from reconciler.source.git.authors import author_of
    from reconciler.source.operating.writing import write_manifests

    write = message if callable(message) else partial(titled, message)
    first: Files = {SCHEMA: ANY_KIND.read_bytes()}
    revision, edit = write_manifests(repo, author_of(Path.cwd()), decide, write, first)
    return Landed(revision, edit.results)


def carry_out(
    settings: Settings,
    how: How,
    decide: Decide,
    message: Message,
    repository: Callable[[Settings], Any] | None = None,
) -> Landed:
    """Make a change, or for a dry run only show it. ``repository`` opens the repository, by default ``opened``."""
    refuse_watched_folder(settings)
    if not how.dry:
        given = how.message
        return change((repository or opened)(settings), decide, (lambda _: given) if given else message)
    from reconciler.source.operating.writing import allowed

    revision, files = present(settings)
    edit = decide(files)
    refused: frozenset[str] = frozenset()
    if how.dry_run == "server":
        refused = print_preview(settings, edit.applied_to(files), allowed=allowed(edit.results))
    mine = {f"{result.kind.lower()}/{result.name}" for result in edit.results} | {HELD}
    return Landed(revision, edit.results, bool(refused & mine))


def report(how: How, landed: Landed, words: Mapping[str, str] | None = None) -> None:
    """Print one line for each object, as kubectl does; ``words`` replaces the names of actions."""
    if how.output in ("json", "yaml"):
        objects = [{"kind": r.kind, "name": r.name, "action": r.action} for r in landed.results]
        print_body({"revision": landed.revision, "dryRun": how.dry, "objects": objects}, how.output)
        return
    for result in landed.results:
        name = full_name(result.kind, result.name)
        word = (words or {}).get(result.action, result.action)
        click.echo(name if how.output == "name" else f"{name} {word}{how.suffix}")


# --- the repository --------------------------------------------------------------------------------


def prepare(settings: Settings) -> Any:
    """Return the cluster repository of a home, and create both if missing; for another machine, a copy that pushes there."""
    if settings.away is not None:
        return settings.away.repository()
    from reconciler.bootstrap import Home
    from reconciler.source.git import hooks
    from reconciler.source.git.repository import ClusterRepo

    def check(repo: ClusterRepo, old: str, new: str, ref: str) -> str:
        from reconciler.source.hook import objection_to  # the checks of manifests take a while to import

        return objection_to(repo, old, new, ref)

    Home(settings.home).create()
    return ClusterRepo.create(settings.repo, hooks.command(), check)


def opened(settings: Settings) -> Any:
    """Return the cluster repository. Raises ``Invalid`` if it does not exist: there is nothing to change."""
    if not (settings.repo / "HEAD").exists():
        raise Invalid(
            f"there is no cluster repository in {settings.home}; create one with: reconciler apply -f FILE"
        )
    return prepare(settings)


def present(settings: Settings) -> tuple[str | None, dict[str, bytes]]:
    """Return the newest revision and its files; empty without a repository, which is not created."""
    from reconciler.source.git.repository import ClusterRepo

    if not (settings.repo / "HEAD").exists():
        return None, {}
    repo = ClusterRepo(settings.repo)
    head = repo.head()
    return head, repo.read(head) if head else {}


def nodes_of(settings: Settings) -> dict[str, Access]:
    """Return how to connect to each committed Node."""
    from reconciler.resources import Node
    from reconciler.source.yaml.documents import all_of

    return {name: node.spec.access for name, node in all_of(present(settings)[1], Node).items()}


# --- the controller --------------------------------------------------------------------------------


def running(settings: Settings) -> answers.ControllerStatus | None:
    try:
        return ask(settings.socket, ShowStatus())
    except Unreachable:
        return None


def refuse_watched_folder(settings: Settings) -> None:
    """Raise ``Invalid`` while a folder is watched, because a commit would have no effect."""
    status = running(settings)
    if status and not status["source"].startswith("git "):
        raise Invalid(f"the controller reads {status['source']}: edit the files there, changes are noticed")


def preview(
    settings: Settings, files: Files, operations: Files | None = None, allowed: tuple[str, ...] = ()
) -> answers.Foreseen:
    """Return the controller's plan for ``files``, or for ``operations`` instead of those in force. ``allowed``: the removals
    and jobs that the commit would allow. Raises ``Unreachable`` if no controller runs."""
    from reconciler.source.yaml.beside import packed

    instead = None if operations is None else packed(operations)[0]
    texts, others = packed(files)
    return ask(settings.socket, Preview(texts, instead, allowed, others))


def print_preview(
    settings: Settings, files: Files, operations: Files | None = None, allowed: tuple[str, ...] = ()
) -> frozenset[str]:
    """Print the controller's first steps to standard error, and say if it would hold or refuse the commit.

    Returns the objects that it would refuse; ``HELD`` if it would hold or refuse the commit.
    """
    from reconciler.source.yaml.documents import load

    load(files)
    try:
        body = preview(settings, files, operations, allowed)
    except Unreachable:
        click.echo("note: what the controller would do is unknown, because none is running", err=True)
        return frozenset()
    if body.get("suspended"):  # older controllers do not say
        click.echo(typed(f"note: {body['suspended']}"), err=True)
    if body["held"]:
        names = few_names(body["removes"], REMOVED_SHOWN)
        removes = f"it removes {len(body['removes'])} of {body['of']} objects ({names})"
        runs = f"it runs {few_names([job['text'] for job in body.get('runs', ())])}"
        why = removes if body["removes"] or not body.get("runs") else runs
        text = f"note: the commit would be held: {why}, until: reconciler approve REVISION"
        click.echo(typed(text), err=True)
        return frozenset((HELD,))
    for text in body.get("tooLarge", ()):
        click.echo(f"note: would be refused, because no node could ever hold this: {text}", err=True)
    if body.get("tooLarge"):
        return frozenset((HELD,))
    for step in body["plan"]["steps"]:
        click.echo(f"note: would {step['text']}", err=True)
    # Of each replica the same.
    for text in dict.fromkeys(refused["text"] for refused in body["plan"]["refused"]):
        click.echo(typed(f"note: would refuse: {text}"), err=True)
    return frozenset(refused["object"] for refused in body["plan"]["refused"])
