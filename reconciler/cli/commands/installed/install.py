"""`install` and `uninstall`: make controller and gateway a service of this machine, and remove it with its files."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.confirm import agreed
from reconciler.cli.core.environment import own_requirement, requirement_of
from reconciler.cli.output.parsed import THERE
from reconciler.cli.output.typed import typed
from reconciler.errors import Invalid, Refused

from .handover import end_up, missing_service, running_up

if TYPE_CHECKING:
    from reconciler.remote.bootstrap.actions import Action
    from reconciler.services.up_service import UpService

USER_OPTION = click.option(
    "--user",
    "of_user",
    is_flag=True,
    help="Use the systemd of this user, which needs no administrator (Linux).",
)


@click.command()
@USER_OPTION
@click.option(
    "--from", "source", type=THERE, help="Install this wheel or clone, instead of this command's own source."
)
@click.option("--index-url", metavar="URL", help="Take everything from this index.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("-y", "--yes", is_flag=True, help="Do it without asking.")
@click.pass_obj
def install(
    settings: Settings, of_user: bool, source: Path | None, index_url: str | None, dry_run: bool, yes: bool
) -> None:
    """Run the cluster as a service of this machine, from every boot on.

    Copies this version into an environment of its own in the home, and makes launchd or systemd keep `reconciler up` running
    from it. The service is a LaunchDaemon on a Mac or a system unit on Linux, which runs as you; with --user, a unit of your
    own systemd. Prints every file and command first. Commands that need an administrator's password are printed, to be
    pasted. Running ranks continue.

    \b
    Examples:
      reconciler install --dry-run
      reconciler install --user --yes
      reconciler install --from dist/mlx_reconciler-0.1.0-py3-none-any.whl
    """
    from reconciler.bootstrap import Home
    from reconciler.services.machine import content, succeeds, this_machine
    from reconciler.services.up_service import UpService
    from reconciler.services.versions import Versions

    Home(settings.home).check()
    service, versions = UpService(settings.home, this_machine(of_user)), Versions(settings.home / "versions")
    requirement = requirement_of(source) if source is not None else own_requirement(index_url)
    definition = content(service.definition)
    loaded = definition is not None and succeeds(service.loaded_question())
    wanted = service.install_actions(content(service.script), definition, running_up(settings.home), loaded)
    if versions.current is None:
        click.echo(f"  * install {requirement}\n    into {versions.root}")
    elif not wanted:
        text = (
            f"{service.name} is installed, with version {versions.current}; to replace it: reconciler upgrade"
        )
        click.echo(typed(text))
        return
    _show(wanted)
    if dry_run or not (yes or agreed("do this?")):
        _not_done(dry_run)
        return
    Home(settings.home).create()
    if versions.current is None:
        versions.use(versions.make(requirement, index_url), None)
    _carry_out(wanted)
    _report(settings, service, versions.current or "", _asks(wanted))


def _report(settings: Settings, service: UpService, version: str, by_person: bool) -> None:
    if by_person:
        click.echo("installed, except for the administrator's part: paste the lines above")
        return
    if missing_service(settings, version, endpoint=False):
        raise Refused(
            "NotServing", f"{service.name} runs, and its controller does not answer; see {service.words}"
        )
    home = shlex.quote(str(settings.home))
    click.echo(f"{service.name} runs version {version}; see what it does: reconciler --home {home} get all")
    if service.machine.keeper.value == "systemd of the user":
        user = service.machine.user
        click.echo(
            f"to have it run without a login, also after a restart: sudo loginctl enable-linger {user}"
        )


@click.command()
@USER_OPTION
@click.option("--purge", is_flag=True, help="Also remove the home: manifests, history, weights, everything.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("-y", "--yes", is_flag=True, help="Do it without asking.")
@click.pass_obj
def uninstall(settings: Settings, of_user: bool, purge: bool, dry_run: bool, yes: bool) -> None:
    """Stop everything, and remove the service and the versions that `install` has made.

    Ends every rank and agent, as Ctrl-C in `up` does. The home stays, with manifests, history and weights, unless --purge
    removes it too. Files on other machines stay: to remove them, run `reconciler node reset` before this command.

    \b
    Examples:
      reconciler uninstall --user
      reconciler uninstall --purge --dry-run
    """
    from reconciler.services.machine import content, this_machine
    from reconciler.services.up_service import UpService

    service = UpService(settings.home, this_machine(of_user))
    wanted = service.remove_actions(content(service.definition))
    folders = [service.folder, settings.home / "versions"] if not purge else [settings.home]
    there = [folder for folder in folders if folder.exists()]
    if not wanted and not there:
        click.echo(f"nothing is installed for {settings.home}")
        return
    if purge and settings.home.exists() and not settings.repo.exists():
        raise Invalid(f"{settings.home} is no home of a cluster: it has no cluster.git; remove it yourself")
    if running_up(settings.home):
        click.echo("  * stop every rank and agent, the controller and the gateway")
    _show(wanted)
    for folder in there:
        click.echo(f"  * remove {folder}, with all that is in it")
    if dry_run or not (yes or agreed("do this?")):
        _not_done(dry_run)
        return
    service.script.unlink(missing_ok=True)  # from now on, the service starts nothing
    end_up(settings.home, everything=True)
    _carry_out(wanted)
    for folder in there:
        shutil.rmtree(folder)
    click.echo(
        f"{service.name} is removed" + (", except for the administrator's part" if _asks(wanted) else "")
    )


def _asks(wanted: Sequence[Action]) -> bool:
    return any(each.by_person for each in wanted)


def _show(wanted: Sequence[Action]) -> None:
    for action in wanted:
        if not action.by_person:
            click.echo(f"  * {action.why}\n    {action.act}")
    if _asks(wanted):
        click.echo("by somebody with an administrator's password:")
    for action in wanted:
        if action.by_person:
            click.echo(f"    # {action.why}\n    {str(action.act).removeprefix('$ ')}")


def _carry_out(wanted: Sequence[Action]) -> None:
    from reconciler.services.machine import carry_out

    for action in wanted:
        if not action.by_person:
            carry_out(action)


def _not_done(dry_run: bool) -> None:
    if not dry_run:
        click.echo("nothing was done; to do it, repeat the command with --yes", err=True)
        sys.exit(1)
