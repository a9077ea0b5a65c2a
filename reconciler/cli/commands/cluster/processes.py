"""The processes that `up` supervises, as commands of their own; a service manager may run them as well."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.core.app import Settings


@click.command(hidden=True)
@click.option(
    "--watch", type=click.Path(path_type=Path), help="Read manifests from this folder instead of git."
)
@click.pass_obj
def controller(settings: Settings, watch: Path | None) -> int:
    """Run the controller."""
    from reconciler.bootstrap.controller import run_controller

    return run_controller(settings.home, watch)


@click.command(hidden=True)
@click.option(
    "--any-port", is_flag=True, help="Take the next free port when the one in the manifest is taken."
)
@click.pass_obj
def gateway(settings: Settings, any_port: bool) -> int:
    """Run the gateway."""
    from reconciler.bootstrap.gateway import run_gateway

    return run_gateway(settings.home, any_port)
