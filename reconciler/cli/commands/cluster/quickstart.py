"""`quickstart`: run the cluster that comes with the product, to try everything on one machine."""

from __future__ import annotations

import shlex
from typing import Any

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.core.environment import has_runtime, install_command, runtime_packages
from reconciler.cli.core.shipped import SHIPPED
from reconciler.errors import Conflict, Invalid

from .up import How, Manifests, no_console_option, once_option, run

FOLDER = "manifests/"
"""The folder of the manifests in the cluster repository."""
MODEL = f"{FOLDER}tiny.yaml"
"""The manifest that shows that a cluster comes from an earlier quickstart."""


@click.command()
@no_console_option
@once_option
@click.pass_obj
def quickstart(settings: Settings, once: str | None, no_console: bool) -> int:
    """Serve a small model on this machine, to try everything.

    Commits manifests to an empty cluster repository: two nodes on this machine, a model of 6 MB that comes with the
    command, and an endpoint. Then does the same as `up`. Repeat the command to continue with the same cluster.

    \b
    Examples:
      reconciler quickstart
      reconciler quickstart --once "What is an epoch?"
      reconciler --home /tmp/try quickstart          in a home of its own
    """
    if not has_runtime():
        raise Invalid(
            f"ranks need MLX, which is not installed here; type: {install_command(runtime_packages())}"
        )
    _check_home(settings)
    manifests = Manifests(_documents, shlex.quote(str(SHIPPED / "manifests")))
    how = How(None, SHIPPED / "models", any_port=True, once=once, manifests=manifests, console=not no_console)
    return run(settings, how)


def _documents() -> tuple[Any, ...]:
    from reconciler.source.files import read_directory
    from reconciler.source.yaml.documents import load

    return load(read_directory(SHIPPED / "manifests", FOLDER))


def _check_home(settings: Settings) -> None:
    """Raise ``Conflict`` if the home has another cluster, whose models nobody wants to start by accident."""
    if not (settings.repo / "HEAD").exists():
        return
    from reconciler.source.git.repository import ClusterRepo

    repo = ClusterRepo(settings.repo)
    head = repo.head()
    if head is not None and MODEL not in repo.read(head):
        raise Conflict(
            f"{settings.home} has another cluster, which `reconciler up` starts; to try the quickstart beside it:"
            f" reconciler --home {shlex.quote(str(settings.home.with_name('reconciler-quickstart')))} quickstart"
        )
