"""The processes that `up` supervises, as commands; a service manager may also run them. The console is one too (``console``)."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.core.app import Settings
from reconciler.cli.output.parsed import PATH


@click.command(hidden=True)
@click.option("--watch", type=PATH, help="Read manifests from this folder instead of git.")
@click.pass_obj
def controller(settings: Settings, watch: Path | None) -> int:
    """Run the controller."""
    from reconciler.bootstrap.controller import run_controller

    return run_controller(settings.home, watch)


@click.command(hidden=True)
@click.option("--any-port", is_flag=True, help="Use the next free port if the manifest's is taken.")
@click.option(
    "--take-over", is_flag=True, help="Take over from the running gateway, without refusing any client."
)
@click.pass_obj
def gateway(settings: Settings, any_port: bool, take_over: bool) -> int:
    """Run the gateway."""
    from reconciler.bootstrap.gateway import run_gateway

    return run_gateway(settings.home, any_port, take_over)
