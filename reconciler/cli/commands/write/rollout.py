"""`rollout`: follow a change, let it wait, restart groups, and return to an earlier state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings, SuggestingGroup
from reconciler.cli.core.client import Client
from reconciler.cli.core.commits import (
    Files,
    How,
    WritingCommand,
    carry_out,
    opened,
    write_options,
)
from reconciler.cli.core.kinds import full_name, not_found
from reconciler.cli.core.operations import HowLong, operate, operation_options, wish_or_operation
from reconciler.cli.core.targets import Key, Targets, one_object, target_options
from reconciler.cli.core.waiting import finish, timeout_option, unread, wait_until
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.screen import Screen
from reconciler.cli.output.table_layout import table
from reconciler.errors import Refused
from reconciler.source.operating import verbs
from reconciler.source.operating.change import Change, Now, results
from reconciler.wire.admin import Get, ShowStatus
from reconciler.wire.objects import DeploymentStatus, condition

from .scale import DEPLOYMENT, chosen_deployments

if TYPE_CHECKING:
    from reconciler.resources import ModelDeployment

Fields = dict[tuple[str, ...], Any]
PAUSE, RESUME = "pause", "resume"


@click.group(cls=SuggestingGroup)
def rollout() -> None:
    """Follow a change of a deployment, restart it, or undo it.

    \b
    Examples:
      reconciler rollout status deployment/tiny
      reconciler rollout restart deployment/tiny
      reconciler rollout pause deployment/tiny
      reconciler rollout resume deployment/tiny
      reconciler rollout undo deployment/tiny
      reconciler rollout history deployment/tiny
    """


# --- status ----------------------------------------------------------------------------------------


@rollout.command()
@click.argument("words", nargs=-1, metavar="NAME | KIND/NAME", shell_complete=complete.deployments)
@click.option(
    "-w", "--watch/--no-watch", default=True, help="Wait until it is done, or only show the current state."
)
@timeout_option("30m")
@click.pass_obj
def status(settings: Settings, words: tuple[str, ...], watch: bool, timeout: float) -> None:
    """Wait until a deployment is served with its newest spec.

    Exits with 1 if that is impossible, or takes longer than --timeout.

    \b
    Examples:
      reconciler rollout status tiny
      reconciler rollout status deployment/tiny --timeout=10m
    """
    key = one_object(words, DEPLOYMENT)
    if key[0] != DEPLOYMENT:
        raise Refused("NoRollout", f"{key[0].lower()}/{key[1]} has no rollout; only modeldeployments do")
    say = Screen()
    if not watch:
        with Client(settings.socket) as client:
            say(_missing(settings, client, key) or _done(key))
        return
    wait_until(settings, lambda client: _missing(settings, client, key), timeout, say)
    say(_done(key))


def _done(key: Key) -> str:
    return f'deployment "{key[1]}" successfully rolled out'


def _missing(settings: Settings, client: Client, key: Key) -> str:
    """Return the missing part of a rollout, in kubectl's words. Raises ``Refused`` if waiting is useless."""
    unseen = "Waiting for deployment spec update to be observed..."
    if any(unread(client, *head) for head in _heads(settings, client)):
        return unseen
    items = client.ask(Get("ModelDeployment", key[1]))["items"]
    if not items:
        raise not_found(*key)
    (item,) = items
    found, name = item["status"], key[1]
    if item["metadata"].get("deletionTimestamp"):
        raise Refused("Deleted", f'deployment "{name}" is being removed')
    if found["observedGeneration"] < item["metadata"]["generation"]:
        return unseen
    stalled, busy = condition(item, "Stalled"), condition(item, "Reconciling")
    if stalled["status"] == "True":
        raise Refused("Stalled", f'deployment "{name}" cannot be rolled out: {stalled["message"]}')
    begins = f'Waiting for deployment "{name}" rollout to finish'
    unready = condition(item, "Ready")
    if unready["status"] != "True":
        ready, wanted = found.get("readyReplicas", 0), found.get("replicas", item["spec"]["replicas"])
        requested = unready["message"] if unready["reason"] in ("StoppedByRequest", "NodeRestarting") else ""
        cause = busy["message"] or requested
        detail = f" ({cause})" if cause else ""
        return f"{begins}: {_updated(found, wanted)}{ready} of {wanted} updated replicas are available...{detail}"
    wanted = found.get("replicas", 0)
    return f"{begins}: {_updated(found, wanted)}{busy['message']}" if busy["status"] == "True" else ""


def _updated(found: DeploymentStatus, wanted: int) -> str:
    """Say how many replicas are changed, in kubectl's words; empty if all are."""
    updated = found.get("updatedReplicas", wanted)
    return f"{updated} out of {wanted} new replicas have been updated; " if updated < wanted else ""


def _heads(settings: Settings, client: Client) -> list[tuple[Any, str, bool]]:
    """Return the repository and the newest commit of each branch that the controller reads, and whether it has
    operations; none if it reads a folder."""
    from reconciler.source.git.repository import OPERATIONS, REF, ClusterRepo

    if not client.ask(ShowStatus())["source"].startswith("git ") or not (settings.repo / "HEAD").exists():
        return []
    repo = ClusterRepo(settings.repo)
    heads = ((repo.head(ref), ref == OPERATIONS) for ref in (REF, OPERATIONS))
    return [(repo, revision, operations) for revision, operations in heads if revision is not None]


# --- pause, resume ---------------------------------------------------------------------------------


@rollout.command(cls=WritingCommand)
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
        chosen = chosen_deployments(now.files, targets, _not_for("paused"))
        change = verbs.begin(now, PAUSE, chosen)
        ended = dict.fromkeys(verbs.present(now, RESUME, chosen).values())
        return replace(change, operations={**ended, **change.operations})

    def for_good(files: Files) -> Any:
        return _edited(files, targets, lambda _: {("spec", "paused"): True}, "paused")

    landed, _ = wish_or_operation(
        settings, how, PAUSE, RESUME, "main says that changes wait", for_a_while, for_good, "Pause"
    )
    finish(settings, how, landed, {"configured": "paused"})


@rollout.command(cls=WritingCommand)
@target_options
@operation_options(ends=False)
@click.pass_obj
def resume(settings: Settings, targets: Targets, how: HowLong) -> None:
    """Continue with changes of deployments that are paused, or that wait for their canaries.

    Ends the effect of `rollout pause`. A commit changes the deployments in main; if main is a mirror, an operation does so
    instead.

    \b
    Examples:
      reconciler rollout resume deployment/tiny
      reconciler rollout resume deployments --all
    """
    at = datetime.now(UTC)

    def beside_main(now: Now) -> Change:
        chosen = chosen_deployments(now.files, targets, _not_for("resumed"))
        waiting = [key for key, wish in chosen.items() if _resumed(wish, at)]
        paused = verbs.present(now, PAUSE, chosen)
        change = verbs.begin(now, RESUME, waiting, at=at.timestamp())
        operations = {**dict.fromkeys(paused.values()), **change.operations}
        return Change(change.title, results(chosen, {*paused, *waiting}), operations)

    def in_main(files: Files) -> Any:
        return _edited(files, targets, lambda wish: _resumed(wish, at), "resumed")

    landed, ended = wish_or_operation(
        settings, how, RESUME, PAUSE, "changes go on", beside_main, in_main, "Resume"
    )
    finish(settings, how, landed, {"configured": "resumed", **({"unchanged": "resumed"} if ended else {})})


def _resumed(wish: ModelDeployment, at: datetime) -> Fields:
    """Return the fields that let the changes of a deployment continue; none if nothing in its manifest holds them."""
    found: Fields = {("spec", "paused"): False} if wish.spec.paused else {}
    if wish.spec.strategy.canary is not None:
        moment = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found["spec", "strategy", "canary", "resumedAt"] = moment
    return found


def _not_for(done: str, code: str = "NoRollout") -> Callable[[str], Refused]:
    """Return the refusal of other objects, with ``code``. ``done``: the word for the change."""

    def refused(other: str) -> Refused:
        if other.startswith("job/") and done == "restarted":
            return Refused(code, f"{other} is no deployment; run it again with: reconciler restart {other}")
        what = f"{other} cannot be {done}" if other else "no objects are selected"
        return Refused(code, f"{what}; this works for modeldeployments only")

    return refused


def _edited(files: Files, targets: Targets, fields: Callable[[ModelDeployment], Fields], done: str) -> Any:
    """Return the edit of ``main`` that sets fields of the chosen deployments."""
    from reconciler.source.editing import set_fields

    chosen = chosen_deployments(files, targets, _not_for(done))
    return set_fields(files, {key: fields(wish) for key, wish in chosen.items()})


# --- restart ---------------------------------------------------------------------------------------


@rollout.command(cls=WritingCommand)
@target_options
@operation_options(ends=False)
@click.pass_obj
def restart(settings: Settings, targets: Targets, how: HowLong) -> None:
    """Restart every group of deployments, by an operation that sets spec.restartedAt.

    \b
    Examples:
      reconciler rollout restart deployment/tiny --reason "it answers slowly"
      reconciler rollout restart deployments --all
    """
    at = datetime.now(UTC).timestamp()

    def decide(now: Now) -> Change:
        chosen = chosen_deployments(now.files, targets, _not_for("restarted", "NotRestartable"))
        return verbs.begin(now, "restart", chosen, at=at)

    finish(settings, how, operate(settings, how, decide), {"configured": "restarted"})


# --- undo, history ---------------------------------------------------------------------------------


@rollout.command(cls=WritingCommand)
@click.argument("words", nargs=-1, metavar="NAME | KIND/NAME", shell_complete=complete.deployments)
@click.option(
    "--to-revision",
    metavar="REVISION",
    help="Return to this commit; by default, to the state before the last change.",
)
@write_options
@click.pass_obj
def undo(settings: Settings, words: tuple[str, ...], to_revision: str | None, how: How) -> None:
    """Revert the newest commit that changed an object, by a new commit.

    If that commit also changed other objects, or conflicts with later ones, reverts only this object. If the model of a
    deployment was changed later, changes nothing, and names both commits.

    \b
    Examples:
      reconciler rollout undo deployment/tiny
      reconciler rollout undo deployment/tiny --to-revision=1f0c2a9b3d
      reconciler rollout undo deployment/tiny --dry-run
    """
    from reconciler.source.git import going_back

    key = one_object(words, DEPLOYMENT)
    undone: list[going_back.Undo] = []

    def decide(files: Mapping[str, bytes]) -> Any:
        repo = opened(settings)
        if to_revision is None:
            undone[:] = [going_back.undo(repo, files, key)]
        else:
            undone[:] = [going_back.go_back(repo, files, key, repo.resolve(to_revision))]
        return undone[0].edit

    landed = carry_out(settings, how, decide, lambda _: undone[0].message)
    if (commit := undone[0].undoes) is not None:
        when = f"{commit.author}, {_time(commit.at)}"
        verb = "would undo" if how.dry else "undid"
        click.echo(f'note: {verb} {commit.revision[:10]} "{commit.subject}" ({when})', err=True)
    if undone[0].note:
        click.echo(f"note: {undone[0].note}", err=True)
    words_for = {"configured": "rolled back", "created": "rolled back", "unchanged": "skipped rollback"}
    finish(settings, how, landed, words_for)


@rollout.command(name="history")
@click.argument("words", nargs=-1, metavar="NAME | KIND/NAME", shell_complete=complete.deployments)
@click.option("--revision", metavar="REVISION", help="Show the object at this commit.")
@output_option()
@click.pass_obj
def history_(settings: Settings, words: tuple[str, ...], revision: str | None, output: str | None) -> None:
    """List the commits that changed an object, oldest first.

    \b
    Examples:
      reconciler rollout history deployment/tiny
      reconciler rollout history deployment/tiny --revision=1f0c2a9b3d
    """
    from reconciler.source.git import history

    key = one_object(words, DEPLOYMENT)
    repo = opened(settings)
    if revision is not None:
        _, text = history.text_at(repo, repo.resolve(revision), key)
        click.echo(text, nl=not text.endswith("\n"))
        return
    commits = [change.commit for change in history.changes(repo, key)][::-1]
    if not commits:
        raise not_found(*key)
    body = [
        {"revision": c.revision, "time": _time(c.at), "author": c.author, "subject": c.subject}
        for c in commits
    ]
    rows = [(c.revision[:10], _time(c.at), c.author, c.subject) for c in commits]
    print_body(body, output, (full_name(*key), table(("REVISION", "TIME", "AUTHOR", "CHANGE"), rows)))


def _time(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
