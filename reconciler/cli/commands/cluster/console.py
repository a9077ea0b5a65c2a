"""`reconciler console`: print the console's URL. `up` runs the console by the same name, with `--serve`."""

from __future__ import annotations

import json

import click

from reconciler.bootstrap import CONSOLE, Home
from reconciler.cli.core.app import Settings
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.typed import typed
from reconciler.errors import Unreachable
from reconciler.services.lock import holder


@click.command()
@click.option("--serve", is_flag=True, help="Run the console in the foreground, as `reconciler up` does.")
@click.option(
    "--any-port",
    is_flag=True,
    help="Run it, on the next free port if the manifest's is taken.",
)
@output_option()
@click.pass_obj
def console(settings: Settings, serve: bool, any_port: bool, output: str | None) -> int:
    """Print the URL of the console, which shows the cluster in a browser.

    \b
    Examples:
      reconciler console
      reconciler console -o json
    """
    if serve or any_port:
        from reconciler.bootstrap.console import run_console

        return run_console(settings.home, any_port)
    home = Home(settings.home)
    if holder(home.lock_of(CONSOLE)) is None:
        raise Unreachable(f"no console runs for {home.root}; start it with: reconciler up")
    try:
        state = json.loads(home.console.read_bytes())
        url, keys, problem = state["url"], state["keys"], state["problem"]
    except (OSError, ValueError, LookupError, TypeError):
        raise Unreachable(
            f"the console does not listen yet; try again in a moment, or see {home.root / 'logs' / 'console.log'}"
        ) from None
    if not url:
        raise Unreachable(
            f"the console does not listen: {problem or '`spec.console.enabled` of the Gateway is false'}"
        )
    if output:
        print_body({"url": url, "keys": bool(keys)}, output)
        return 0
    click.echo(url)
    if keys:
        text = "it asks for a key, which is made with: reconciler key create NAME --console view"
        click.echo(typed(text), err=True)
    return 0
