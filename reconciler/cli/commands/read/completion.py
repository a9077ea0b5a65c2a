"""`completion`: print the shell's completion script for commands, options, kinds and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from reconciler.cli.core.app import reconciler

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a shell script that completes commands, options, kinds and names.

    \b
    Examples:
      source <(reconciler completion bash)                 for this shell; put it into ~/.bashrc
      source <(reconciler completion zsh)                  for this shell; put it into ~/.zshrc
      reconciler completion fish > ~/.config/fish/completions/reconciler.fish
    """
    click.echo(script(shell), nl=False)


def script(shell: str) -> str:
    """Return the script of one of ``SHELLS``."""
    made = get_completion_class(shell)
    assert made is not None
    return made(reconciler, {}, "reconciler", "_RECONCILER_COMPLETE").source() + "\n"
