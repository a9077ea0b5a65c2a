"""`node bootstrap` and `node reset`: install or remove the service that runs a machine's agent."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.core.commits import nodes_of
from reconciler.cli.core.complete import nodes
from reconciler.cli.core.confirm import agreed
from reconciler.cli.core.gathered import gathered
from reconciler.cli.output.form import output_option, print_body
from reconciler.errors import Refused, Unreachable
from reconciler.wire.admin import ShowProtection

if TYPE_CHECKING:
    from reconciler.planning.nodes.root_commands import RootCommands
    from reconciler.remote.bootstrap.actions import Action
    from reconciler.remote.nodes.bootstrap import BootstrapPlan
    from reconciler.remote.nodes.node_over_ssh import SshNode
    from reconciler.resources import Access

ROUNDS_MAX = 3
"""One round may make another necessary, for example to end an agent that the controller started meanwhile."""
T = TypeVar("T")
Say = Callable[..., None]


@dataclass(frozen=True, slots=True)
class _How:
    dry_run: bool
    yes: bool
    output: str | None


_options = gathered(
    "how",
    _How,
    click.argument("name", shell_complete=nodes),
    click.option("--dry-run", is_flag=True, help="Only show what would be done."),
    click.option("-y", "--yes", is_flag=True, help="Do it without asking."),
    output_option(),
)


@click.command()
@_options
@click.pass_obj
def bootstrap(settings: Settings, name: str, how: _How) -> None:
    """Install a service that keeps the agent of Node NAME running.

    Prints every command and file with its purpose, then carries it out: the agent's file, the gateway's access to
    the ranks, and a service that starts the agent at every boot. The service is a LaunchDaemon on a Mac, and a
    systemd service on Linux if systemd is there. Commands that need an administrator's password are printed, to be
    pasted on the machine; so are the sudoers lines that its probes and repairs need, if sudo allows less or more. Running
    ranks continue. If everything is in place, does nothing.

    \b
    Examples:
      reconciler node bootstrap studio-1 --dry-run
      reconciler node bootstrap studio-1
      reconciler node bootstrap studio-1 --yes -o json
    """
    from reconciler.remote.nodes.bootstrap import plan_bootstrap

    look = partial(plan_bootstrap, needed=_needed(settings, name))
    _run_task(settings, name, _Task(look, "bootstrapped", "all is in place"), how)


def _needed(settings: Settings, name: str) -> RootCommands | None:
    """Return the commands that should run as root on a machine; None if no controller has seen it."""
    from reconciler.planning.nodes.root_commands import RootCommand, RootCommands

    try:
        body = ask(settings.socket, ShowProtection(name, getpass.getuser()))
    except (Refused, Unreachable):
        return None
    commands = (RootCommand(tuple(each["argv"]), each["why"]) for each in body["commands"])
    return RootCommands(tuple(commands), tuple(body["unknown"]), body.get("jobs_user", ""))


@click.command()
@_options
@click.pass_obj
def reset(settings: Settings, name: str, how: _How) -> None:
    """Remove the service that keeps the agent of Node NAME running.

    Undoes `node bootstrap`: stops the service, and removes it with its files. Prints every command first. The
    service's agent ends and ranks continue. While the Node exists, the controller starts an agent itself, as before
    bootstrap. To take a machine out of the cluster, delete its Node afterwards. If there is no service, does
    nothing.

    \b
    Examples:
      reconciler node reset studio-1 --dry-run
      reconciler node reset studio-1 && reconciler delete node studio-1
      reconciler node reset studio-1 --yes -o json
    """
    from reconciler.remote.nodes.bootstrap import plan_reset

    errand = _Task(plan_reset, "reset", "no service keeps its agent running")
    _run_task(settings, name, errand, how)


@dataclass(frozen=True, slots=True)
class _Task:
    look: Callable[[SshNode], Coroutine[Any, Any, BootstrapPlan]]
    done: str
    """The word that reports success."""
    nothing: str
    """The reason if there is nothing to do."""


def _run_task(settings: Settings, name: str, errand: _Task, how: _How) -> None:
    found = nodes_of(settings)
    if name not in found:
        there = ", ".join(sorted(found)) or "none"
        raise Refused("NotFound", f'there is no Node "{name}"; existing Nodes: {there}')
    if found[name].ssh is None:
        raise Refused(
            "OwnMachine", f"{name} is the controller's own machine: `reconciler up` keeps its agent running"
        )

    _carry(name, errand, lambda do: asyncio.run(_with(settings, name, found[name], do)), how)


async def _with(
    settings: Settings, name: str, access: Access, do: Callable[[SshNode], Coroutine[Any, Any, T]]
) -> T:
    from reconciler.bootstrap import Home
    from reconciler.remote.nodes.bootstrap import reach

    home = Home(settings.home)
    machine = reach(name, access, home.root, home.gateway_key)
    try:
        return await do(machine)
    finally:
        await machine.close()


def _carry(name: str, errand: _Task, on_machine: Callable[..., Any], how: _How) -> None:
    say = click.echo if how.output is None else _silent
    wanted = on_machine(errand.look)
    _tell_machine(say, name, wanted)
    done: list[Action] = []
    if wanted.own_actions and not how.dry_run and (how.yes or agreed(f"do this on {name}?")):
        last = on_machine(lambda machine: _carry_out(machine, errand, wanted, say, done))
    else:
        last = wanted
    if how.output:
        print_body(_body(name, wanted, done), how.output)
    elif not last.measures:
        click.echo(f"node/{name} {errand.done if done else f'unchanged: {errand.nothing}'}")
    elif not last.own_actions:
        click.echo(
            f"node/{name} {errand.done if done else 'unchanged'} except for the steps that a person must take there"
        )
    elif how.dry_run:
        click.echo(f"node/{name} {errand.done} (dry run)")
    else:
        click.echo("nothing was done; to do it, repeat the command with --yes", err=True)


async def _carry_out(
    machine: SshNode, errand: _Task, wanted: BootstrapPlan, say: Say, done: list[Action]
) -> BootstrapPlan:
    """Carry out all actions that are possible from here. Raises ``Refused`` if some remain."""
    from reconciler.remote.nodes.bootstrap import carry_out, settle

    for again in range(ROUNDS_MAX):
        if again:
            _tell_measures(say, wanted.own_actions)
        for number, measure in enumerate(wanted.own_actions, 1):
            await carry_out(machine, measure, lambda text: say(f"     {text}", err=True))
            done.append(measure)
            say(f"{number:3}. done")
        await settle(machine)
        wanted = await errand.look(machine)
        if not wanted.own_actions:
            return wanted
    left = "; ".join(str(measure.act) for measure in wanted.own_actions)
    raise Refused("NotInPlace", f"{machine.name}: still to do after {ROUNDS_MAX} attempts: {left}")


def _silent(text: str, err: bool = False) -> None:
    """Print nothing: the output is for a program."""


def _tell_machine(say: Say, name: str, wanted: BootstrapPlan) -> None:
    found, seen = wanted.found, wanted.seen
    rights = {"root": "as root", "sudo": "sudo without a password"}.get(seen.administrator, "no sudo")
    say(f"{name}: {found.system} {found.machine}, user {found.user}, {rights}, {found.python}")
    _tell_measures(say, wanted.own_actions)
    others = [each for each in wanted.measures if each.by_person]
    if others:
        say(f"in a terminal of {name}, by somebody with an administrator's password:")
    for measure in others:
        say(f"     # {measure.why}\n     {str(measure.act).removeprefix('$ ')}")
    for note in wanted.notes:
        say(f"note: {note.text}" + (f"\n     {note.command}" if note.command else ""))


def _tell_measures(say: Say, wanted: tuple[Action, ...]) -> None:
    for number, measure in enumerate(wanted, 1):
        say(f"{number:3}. {measure.why}\n     {measure.act}")
        if shown := getattr(measure.act, "shown", ""):
            say(indent(shown.rstrip("\n"), "     | ", lambda line: True))


def _body(name: str, wanted: BootstrapPlan, done: list[Action]) -> dict[str, Any]:
    found, seen = wanted.found, wanted.seen
    return {
        "node": name,
        "machine": {
            "system": found.system,
            "machine": found.machine,
            "user": found.user,
            "python": found.python,
            "keeper": seen.keeper.value,
            "administrator": seen.administrator or None,
        },
        "measures": [dict(_measure(measure, measure in done)) for measure in wanted.measures],
        "notes": [{"text": note.text, "command": note.command or None} for note in wanted.notes],
    }


def _measure(measure: Action, done: bool) -> Iterator[tuple[str, Any]]:
    from reconciler.remote.bootstrap.actions import Build, Run

    yield "why", measure.why
    if isinstance(measure.act, Run):
        yield "command", list(measure.act.argv)
    elif isinstance(measure.act, Build):
        yield "runtime", str(measure.act.path)
    else:
        act = measure.act
        yield "file", {"path": str(act.path), "mode": f"{act.mode:04o}", "bytes": len(act.content)}
    yield "byPerson", measure.by_person
    yield "done", done
