"""`backup` and `restore`: save a cluster's state to one file, and bring it back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.output.parsed import PATH
from reconciler.cli.output.typed import typed
from reconciler.errors import Conflict, Invalid

from . import archive


@click.command()
@archive.target_option
@click.pass_obj
def backup(settings: Settings, output: Path) -> None:
    """Write the cluster repository, the store and the settings of its remote into one file.

    A controller may run meanwhile. The file contains manifests and events, so keep it private. Weights, logs,
    runtimes and the secrets of groups are not in it. Its name is printed.

    \b
    Examples:
      reconciler backup
      reconciler backup -o /backups/before-upgrade.tar.gz
    """
    from reconciler import store
    from reconciler.bootstrap import Home
    from reconciler.source.git.bundles import write_bundle

    if not settings.store.exists() and not settings.repo.exists():
        raise Invalid(
            f"there is no cluster in {settings.home}, so nothing to back up; for another home use --home"
        )
    now = datetime.now(UTC)
    target = archive.new_target(output, "reconciler", now)
    # Next to the target, because the home's disk may be full.
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.absolute().parent) as made:
        folder = Path(made)
        if settings.store.exists():
            store.copy(settings.store, folder / archive.STORE)
        else:
            store.Store(folder / archive.STORE).close()
        revision = write_bundle(settings.repo, folder / archive.BUNDLE)
        source = Home(settings.home).source
        if source.exists():
            shutil.copyfile(source, folder / archive.SOURCE)
        archive.write(target, folder, now.isoformat(timespec="seconds"), revision)
    click.echo(str(target))


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "--force", is_flag=True, help="Replace the existing cluster; it is kept aside until the next restore."
)
@click.pass_obj
def restore(settings: Settings, file: Path, force: bool) -> None:
    """Restore the cluster repository, the store and the settings of its remote from a backup.

    First stop everything in the home except agents and ranks. The next `reconciler up` adopts or replaces their groups.
    Epochs continue to grow. Weights are not in a backup, and existing weights stay.

    \b
    Examples:
      reconciler restore reconciler-20260102T030405Z.tar.gz
      reconciler restore --force before-upgrade.tar.gz
    """
    from reconciler.bootstrap import Home, swap

    Home(settings.home).check()
    with _alone(settings):
        swap.finish(settings.home)
        if not force:
            _check_empty(settings)
        try:
            contents = _staged(settings, file)
        except BaseException:
            swap.drop(settings.home)
            raise
        swap.decide(settings.home)
    aside = settings.home / swap.ASIDE
    at = f"at {contents.revision[:10]}" if contents.revision else "without a cluster repository"
    click.echo(f"restored {file}, made {contents.at}, {at}")
    if force and aside.exists():
        click.echo(f"the previous cluster is in {aside}")
    click.echo(typed("start it with: reconciler up"))


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Keep `up` and controllers out of the home for the length of the block. Raises ``Conflict`` with the one that runs."""
    from reconciler.bootstrap import Home

    from .up import only_one

    with only_one(settings), Home(settings.home).lock():
        yield


def _check_empty(settings: Settings) -> None:
    from reconciler.source.git.repository import ClusterRepo

    committed = (settings.repo / "HEAD").exists() and ClusterRepo(settings.repo).head() is not None
    if committed or settings.store.exists():
        raise Conflict(
            f"there is a cluster in {settings.home}; to replace it and keep it aside: reconciler restore --force FILE"
        )


def _staged(settings: Settings, file: Path) -> archive.Contents:
    """Extract and check a backup, ready to be put in place. Raises ``Invalid``."""
    from reconciler import store
    from reconciler.bootstrap import Home, swap
    from reconciler.planning.context.reboot_requests import AWAY_SECONDS
    from reconciler.source.git.bundles import read_bundle

    draft = swap.stage(settings.home)
    contents = archive.read(file, draft)
    try:
        store.upgrade_copy(draft / archive.STORE)
        bundle = draft / archive.BUNDLE
        if bundle.exists():
            read_bundle(bundle, draft / settings.repo.name)
            bundle.unlink()
    except Invalid as error:
        raise Invalid(f"{file} is not a usable backup: {error}; nothing was changed") from error
    agents = Home(settings.home).nodes_with_agents()
    store.carry_over(draft / archive.STORE, settings.store, agents, AWAY_SECONDS)
    return contents
