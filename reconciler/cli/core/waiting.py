"""Waits for the controller to finish something, and shows progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from reconciler.cli.output.screen import Screen, quiet_screen
from reconciler.cli.output.typed import typed
from reconciler.errors import Refused, Unreachable, few_names
from reconciler.resources import KIND_NAMES
from reconciler.wire.admin import ShowStatus

from .app import Settings
from .client import Client
from .commits import How, Landed, opened, report, running
from .durations import DURATION

F = TypeVar("F", bound=Callable[..., Any])

POLL_SECONDS = 0.2
READ_SECONDS_MAX = 10.0
"""Time limit for a controller to read a commit. It looks once a second; a busy machine takes longer."""
KEYS_SECONDS_MAX = 10.0
"""Time limit for gateways to have new keys. A gateway on a node is asked every 3 s."""
FOREVER_SECONDS = 7 * 24 * 3600.0
"""The meaning of a time-out of 0: every wait has a bound."""


def timeout_option(default: str) -> Callable[[F], F]:
    """Add `--timeout`, in seconds; 0 waits as long as it takes."""
    return click.option(
        "--timeout",
        type=DURATION,
        default=default,
        show_default=True,
        metavar="DURATION",
        help="Longest time to wait, such as 30s or 5m; 0 waits as long as it takes.",
    )


def wait_until(
    settings: Settings, awaited: Callable[[Client], str], timeout_seconds: float, say: Screen
) -> None:
    """Call ``awaited`` repeatedly until it returns an empty text; show any other text.

    Waits for a controller that restarts meanwhile. Raises ``Unreachable`` if none runs at the start, and
    ``Refused`` (``Timeout``) with the last text when the time is over.
    """
    deadline = time.monotonic() + (timeout_seconds if timeout_seconds > 0 else FOREVER_SECONDS)
    client: Client | None = Client(settings.socket)
    try:
        while True:
            try:
                client = client or Client(settings.socket)
                text = awaited(client)
            except Unreachable as error:
                _close(client)
                client, text = None, str(error)
            if not text:
                say.clear()
                return
            if time.monotonic() >= deadline:
                say.clear()
                raise Refused("Timeout", f"timed out after {timeout_seconds:g} s: {text}")
            say.show(text)
            time.sleep(POLL_SECONDS)
    finally:
        _close(client)


def _close(client: Client | None) -> None:
    if client is not None:
        client.close()


def unread(
    client: Client, repo: Any, revision: str, operation: bool = False, about: Collection[str] | None = None
) -> str:
    """Say why a commit is not in force yet; empty once it is, or a commit on top of it. ``operation``: a commit of the
    operations. ``about``: the objects that it changes, if known: held changes of other objects do not count.

    Raises ``Refused`` with the next step if it is held or rejected, if new revisions are suspended, or if a
    sync window holds changes of it.
    """
    status = client.ask(ShowStatus())
    if operation:
        if _includes(repo, status["operations"], revision):
            return ""
        if status["operationsRejection"]:
            text = f"the newest operations are not in force: {status['operationsRejection']}"
            raise Refused("OperationsRejected", text)
        return f"the operation {revision[:10]} is being read"
    waiting = status.get("heldChanges")
    if waiting and waiting["revision"] == revision:
        objects = [change["object"] for change in waiting["changes"]]
        if about is None or not set(about).isdisjoint(objects):
            raise Refused("ChangesHeld", waiting["text"])
    if _includes(repo, status["revision"], revision):
        return ""
    held = status.get("held")
    if held and _includes(repo, held["revision"], revision):
        raise Refused("RevisionHeld", held["text"])
    suspended = status.get("suspended")
    if suspended and _includes(repo, suspended["revision"], revision):
        raise Refused("RevisionSuspended", suspended["text"])
    if status.get("rejection"):
        raise Refused("RevisionRejected", f"the newest revision is not in force: {status['rejection']}")
    return f"revision {revision[:10]} is being read"


def held_objects(settings: Settings) -> dict[tuple[str, str], str]:
    """Return the objects whose newest manifests sync windows keep out of force, each with the message about it; none if no
    controller runs."""
    status = running(settings)
    waiting = status.get("heldChanges") if status else None
    kinds = {kind.lower(): kind for kind in KIND_NAMES}
    found = {}
    for change in waiting["changes"] if waiting else ():
        kind, _, name = change["object"].partition("/")
        until = f" until {change['until']}" if change["until"] else ""
        found[kinds[kind], name] = f"held by sync window {change['window']}{until}"
    return found


def finish(settings: Settings, how: How, landed: Landed, words: Mapping[str, str] | None = None) -> None:
    """Print one line for each object of a commit, as ``report`` does, and wait until the controller has read it."""
    report(how, landed, words)
    until_read(settings, how, landed)


def until_read(settings: Settings, how: How, landed: Landed) -> None:
    """Wait briefly until the controller has read a commit, and the gateways have the keys that it changes, so that the next
    command or request sees it.

    If the commit does not come into force, or no controller runs, prints the reason to standard error.
    """
    if not running(settings):
        click.echo(typed("note: the controller is not running; start it with: reconciler up"), err=True)
        return
    if how.dry or landed.revision is None:
        return
    repo, revision, operation = opened(settings), landed.revision, landed.operation
    say = quiet_screen()
    try:
        wait_until(settings, lambda client: unread(client, repo, revision, operation), READ_SECONDS_MAX, say)
        if any(
            result.kind in ("ApiKey", "Gateway") and result.action != "unchanged" for result in landed.results
        ):
            wait_until(settings, lambda client: _behind(client, reached=True), KEYS_SECONDS_MAX, say)
            with Client(settings.socket) as client:
                if behind := _behind(client, reached=False):
                    click.echo(f"note: {behind}", err=True)
    except (Refused, Unreachable) as error:
        click.echo(typed(f"note: {error}"), err=True)


def _behind(client: Client, reached: bool) -> str:
    """Say which gateways still have earlier keys, of those that can be ``reached`` or of the others; empty if none."""
    behind = [
        each for each in client.ask(ShowStatus()).get("keysBehind", ()) if reached != bool(each["problem"])
    ]
    if not behind:
        return ""
    names = few_names([each["node"] or "this machine" for each in behind])
    problem = f"; {behind[0]['problem']}" if behind[0]["problem"] else ""
    return f"earlier keys are still in force at the gateway of {names}{problem}"


def _includes(repo: Any, newer: str, revision: str) -> bool:
    """Return whether ``newer`` is ``revision`` or a descendant; ``newer`` may be no commit before the first."""
    return newer == revision or (len(newer) == len(revision) and repo.is_ancestor(revision, newer))
