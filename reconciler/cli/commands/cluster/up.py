"""`up`: run a cluster in the foreground."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from reconciler.bootstrap import CONSOLE, CONTROLLER, GATEWAY, Home, swap
from reconciler.cli.core.app import INTERRUPTED_STATUS, Settings
from reconciler.cli.core.client import ABSENT, LOCK_NAME, Client
from reconciler.cli.core.commits import change, prepare
from reconciler.cli.core.environment import OWN_COMMAND
from reconciler.cli.core.given import load_paths
from reconciler.cli.output.parsed import PATH
from reconciler.cli.output.screen import Screen
from reconciler.cli.output.table_layout import size as readable
from reconciler.errors import Conflict, Invalid, Unreachable
from reconciler.services.hearing import ANSWER_SECONDS, Hearing, Question, Said, ask_http, record
from reconciler.services.lock import started_as
from reconciler.services.supervise import Child, Supervisor
from reconciler.source.git.repository import ClusterRepo
from reconciler.wire.file_identity import FileIdentity

from .question import QUESTION
from .session import Session, signals


@dataclass(frozen=True, slots=True)
class Manifests:
    """Manifests that are read on use, because their reader takes a while to import."""

    read: Callable[[], tuple[Any, ...]]
    named: str
    """Their place, in a form to type."""


@dataclass(frozen=True, slots=True)
class How:
    watch: Path | None
    models: Path | None
    any_port: bool
    once: str | None
    manifests: Manifests | None
    """For an empty cluster repository."""
    console: bool
    """True to start one; for ``once`` there is none."""


once_option = click.option(
    "--once",
    is_flag=False,
    flag_value=QUESTION,
    metavar="[QUESTION]",
    help="Ask one question once everything is ready, print the answer, then stop everything.",
)
no_console_option = click.option("--no-console", is_flag=True, help="Start no console.")


@click.command()
@click.option("-f", "--filename", "paths", multiple=True, help="Manifests for an empty cluster repository.")
@click.option("--watch", type=PATH, help="Read manifests from this folder instead of git, to try them.")
@click.option("--models", type=PATH, help="Copy missing model folders from this folder.")
@click.option("--any-port", is_flag=True, help="Use the next free port if the endpoint's is taken.")
@no_console_option
@once_option
@click.pass_obj
def up(settings: Settings, /, paths: tuple[str, ...], no_console: bool, **options: Any) -> int:
    """Run the controller, the gateway and the console here, and keep them running.

    Ctrl-C stops every rank and agent, then ends. SIGTERM ends the services only: ranks keep running, and the next `up`
    adopts them. If `up` is killed, the services keep running, and the next `up` takes them over.

    \b
    Examples:
      reconciler up -f manifests/ --models examples/models
      reconciler up -f manifests/ --once "What is an epoch?"
      reconciler up --watch manifests/
    """
    manifests = Manifests(lambda: load_paths(paths), " -f ".join(map(shlex.quote, paths))) if paths else None
    how = How(**options, manifests=manifests, console=not no_console)
    if how.watch is not None and paths:
        raise click.UsageError("--watch and -f cannot be combined: a watched folder needs no repository")
    return run(settings, how)


def run(settings: Settings, how: How) -> int:
    """Run the services until a signal. Return the exit status."""
    Home(settings.home).check()
    say = Screen()
    with only_one(settings) as identity, signals() as requested:
        if how.watch is not None and not how.watch.is_dir():
            raise Invalid(f"{how.watch} is not a folder; --watch needs the folder with the manifests")
        supervisor = _supervisor(settings, say, how)
        began_at = time.time()
        with _undone(supervisor):
            revision = _seed(settings, say, how, supervisor)
        if requested.any and not supervisor.started:
            return INTERRUPTED_STATUS
        return Session(settings, say, requested, supervisor, identity, began_at, revision).run(how.once)


def _seed(settings: Settings, say: Screen, how: How, supervisor: Supervisor) -> str | None:
    """Fill the home, and start the services of a new one meanwhile, because they take longer. Return the newest commit."""
    repo = prepare(settings) if how.watch is None else None
    if repo is not None and repo.head() is None:
        supervisor.start()
    if how.models is not None:
        seed_models(how.models, settings.home / "models", say)
    if repo is None or how.manifests is None:
        return repo.head() if repo is not None else None
    return seed_manifests(repo, how.manifests.read(), how.manifests.named, say)


def seed_manifests(
    repo: ClusterRepo, documents: tuple[Any, ...], named: str, say: Callable[[str], None]
) -> str | None:
    """Commit manifests to an empty cluster repository; one with commits is left unchanged. Return its revision.

    ``named``: their place, in a form to type.
    """
    head = repo.head()
    if head is not None:
        say(
            f"{repo.path} already has commits and is used as it is; to change it: reconciler apply -f {named}"
        )
        return head
    from reconciler.source.editing import apply_documents  # imports more than services wait for

    landed = change(repo, lambda files: apply_documents(files, documents), lambda _: "Start the cluster")
    objects = "1 object" if len(landed.results) == 1 else f"{len(landed.results)} objects"
    say(f"{objects} committed to {repo.path} as {(landed.revision or '')[:10]}")
    return landed.revision


def seed_models(source: Path, target: Path, say: Callable[[str], None]) -> None:
    """Copy model folders (those with a ``config.json``) that the model directory lacks, each completely or not at all."""
    if not source.is_dir():
        raise Invalid(f"{source} is not a folder; --models needs one that contains folders of weights")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in sorted(source.iterdir()):
        if not (folder / "config.json").is_file() or (target / folder.name).exists():
            continue
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        say(f"copying model {folder.name} ({readable(size)}) into {target}")
        draft = target / f".{folder.name}.partial"  # only one `up` runs at a time, so nobody else writes it
        shutil.rmtree(draft, ignore_errors=True)
        try:
            shutil.copytree(folder, draft)
        except (OSError, shutil.Error) as error:
            shutil.rmtree(draft, ignore_errors=True)
            raise Invalid(f"model {folder.name} could not be copied into {target}: {error}") from error
        draft.rename(target / folder.name)


@contextmanager
def _undone(supervisor: Supervisor) -> Iterator[None]:
    """On an error, end the services that were started, and leave those that ran before."""
    try:
        yield
    except BaseException:
        supervisor.end_own()
        raise


@contextmanager
def only_one(settings: Settings) -> Iterator[FileIdentity]:
    """Allow one `up` per home at a time. Raises ``Conflict`` with the process that runs."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = settings.home / LOCK_NAME
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            raise Conflict(
                f"reconciler up is already running for {settings.home} (pid {holder}); "
                "use it with: reconciler get all, end it with Ctrl-C, or choose another --home"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        swap.finish(settings.home)
        yield FileIdentity.held(str(path), file.fileno())


def _supervisor(settings: Settings, say: Callable[[str], None], how: How) -> Supervisor:
    home = ("--home", str(settings.home))
    watching = ("--watch", str(how.watch.absolute())) if how.watch is not None else ()
    any_port = ("--any-port",) if how.any_port else ()
    logs = settings.home / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    services = [(CONTROLLER, watching), (GATEWAY, any_port)]
    if how.console and how.once is None:
        services.append((CONSOLE, ("--serve", *any_port)))
    children = [
        Child(
            service,
            (*OWN_COMMAND, *home, service, *options),
            logs / f"{service}.log",
            Home(settings.home).lock_of(service),
            started_as((*home, service, *options)),
            hands_over=service == GATEWAY,
            hearing=Hearing(question(settings.home, service)),
        )
        for service, options in services
    ]
    keep = partial(record, Home(settings.home).supervision, time.time)
    return Supervisor(children, say, search_path=Path(__file__).parents[4], record=keep)


def question(home: Path, service: str) -> Question:
    place = Home(home)
    return {
        CONTROLLER: lambda pid: ask_controller(place.socket),
        GATEWAY: lambda pid: ask_http(place.gateway, pid, _gateway_url, place.routes),
        CONSOLE: lambda pid: ask_http(place.console, pid, lambda state: state["url"]),
    }[service]


def ask_controller(path: Path) -> Said:
    """Say hello on the socket of the command line."""
    try:
        Client(path, ANSWER_SECONDS, start_seconds=0.0).close()
    except Unreachable as error:
        return Said.STARTING if isinstance(error.__cause__, ABSENT) else Said.NOTHING
    return Said.ANSWER


def _gateway_url(state: Any) -> str | None:
    """Return the gateway's URL on this machine, because its name may lead elsewhere."""
    return state["endpoint"] and f"{state['endpoint'].partition('://')[0]}://{state['local']}"
