"""`upgrade` and `rollback`: replace the version that the service runs; ranks keep running."""

from __future__ import annotations

import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli.commands.cluster import archive
from reconciler.cli.core.app import Settings
from reconciler.cli.core.environment import own_requirement, requirement_at, requirement_of
from reconciler.cli.output.parsed import THERE
from reconciler.cli.output.typed import typed
from reconciler.errors import Refused

from .handover import end_up, has_endpoint, missing_service

if TYPE_CHECKING:
    from reconciler.services.versions import Versions

RESTORE_SECONDS = 120.0


@click.command()
@click.argument("version", required=False)
@click.option("--from", "source", type=THERE, help="Take this wheel or clone.")
@click.option("--index-url", metavar="URL", help="Take everything from this index.")
@click.pass_obj
def upgrade(settings: Settings, version: str | None, source: Path | None, index_url: str | None) -> None:
    """Make the service run another version, by default this command's.

    Makes the new version's environment next to the present one, ends the controller, copies the store, and starts the new
    version. Ranks keep running, and are adopted. The new gateway takes over from the present one, which finishes its answers:
    no client is refused. If the new version does not serve, the present one is restored.

    \b
    Examples:
      uv tool upgrade mlx-reconciler && reconciler upgrade
      reconciler upgrade 0.2.0 --index-url https://packages.example.com/simple
      reconciler upgrade --from dist/mlx_reconciler-0.2.0-py3-none-any.whl
    """
    if version is not None and source is not None:
        raise click.UsageError("--from says which version it is; omit VERSION")
    versions, before = _installed(settings)
    if source is not None:
        requirement = requirement_of(source)
    else:
        requirement = (
            requirement_at(version, index_url) if version is not None else own_requirement(index_url)
        )
    click.echo(f"installing {requirement} into {versions.root} ...")
    wanted = versions.make(requirement, index_url)
    if wanted == before:
        click.echo(typed(f"version {before} is what runs; to change it: reconciler upgrade VERSION"))
        return
    endpoint = has_endpoint(settings)
    with versions.switching():
        end_up(settings.home)
        _keep_store(settings, versions)
        versions.use(wanted, before)
    missing = missing_service(settings, wanted, endpoint)
    if not missing:
        versions.drop_unused()
        click.echo(typed(f"version {wanted} runs; to go back to {before}: reconciler rollback"))
        return
    _go_back(settings, versions, before)
    versions.drop_unused()
    raise Refused(
        "NotServing",
        f"the {missing} of version {wanted} does not serve, and {before} was put back; see {_log(settings, missing)}",
    )


@click.command()
@click.pass_obj
def rollback(settings: Settings) -> None:
    """Return the service to the version before the last `upgrade`, with that version's store.

    Manifests stay as they are now, and ranks keep running. Events and incidents since the upgrade are lost; the replaced
    files are kept in `state.before-restore` in the home. Epochs continue to grow.

    \b
    Example:
      reconciler rollback
    """
    versions, present = _installed(settings)
    before = versions.previous
    if before is None:
        raise Refused(
            "NoPreviousVersion", f"version {present} is the only one; for another: reconciler upgrade VERSION"
        )
    endpoint = has_endpoint(settings)
    _go_back(settings, versions, before)
    missing = missing_service(settings, before, endpoint)
    if missing:
        raise Refused(
            "NotServing",
            f"the {missing} of version {before} does not serve; see {_log(settings, missing)}",
        )
    click.echo(f"version {before} runs again")


def _log(settings: Settings, service: str) -> Path:
    return settings.home / "logs" / f"{service}.log"


def _installed(settings: Settings) -> tuple[Versions, str]:
    from reconciler.services.versions import Versions

    versions = Versions(settings.home / "versions")
    if versions.current is None:
        raise Refused(
            "NotInstalled",
            f"no service is installed for {settings.home}: end `reconciler up` with SIGTERM and start it again, which ranks"
            " survive, or make it a service: reconciler install (a change of manifests is taken back with: reconciler rollout"
            " undo KIND/NAME)",
        )
    return versions, versions.current


def _keep_store(settings: Settings, versions: Versions) -> None:
    """Copy the store as the version that just ended left it."""
    from reconciler import store

    versions.previous_store.unlink(missing_ok=True)
    if settings.store.exists():
        store.copy(settings.store, versions.previous_store)


def _go_back(settings: Settings, versions: Versions, before: str) -> None:
    """Return to a version with its store. That version restores the store, because no newer one may write in its format."""
    with versions.switching():
        end_up(settings.home)
        if versions.previous_store.exists():
            _restore(settings, versions, before)
        versions.use(before, None)


def _restore(settings: Settings, versions: Versions, before: str) -> None:
    """Restore a backup of the earlier store and the present manifests. Raises ``Refused`` (``RestoreFailed``)."""
    from reconciler.source.git.bundles import write_bundle

    with tempfile.TemporaryDirectory(prefix=".rollback-", dir=settings.home) as made:
        folder = Path(made)
        versions.previous_store.rename(folder / archive.STORE)
        revision = write_bundle(settings.repo, folder / archive.BUNDLE)
        saved = folder / "before.tar.gz"
        archive.write(saved, folder, datetime.now(UTC).isoformat(timespec="seconds"), revision)
        command = (str(versions.python(before)), "-P", "-m", "reconciler", "--home", str(settings.home))
        done = subprocess.run(
            (*command, "restore", "--force", str(saved)),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=RESTORE_SECONDS,
            check=False,
        )
        if done.returncode:
            (folder / archive.STORE).rename(versions.previous_store)
            raise Refused(
                "RestoreFailed", f"version {before} cannot restore its store: {done.stderr.strip()}"
            )
