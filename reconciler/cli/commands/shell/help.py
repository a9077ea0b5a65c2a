"""`help`: show the help of a command; `completion`: print the shell's script that completes them."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from reconciler.cli.core.app import LISTED, reconciler

SHELLS = ("bash", "zsh", "fish")


def _commands(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    typed = ctx.params.get(param.name or "") or ()
    return [] if typed else [CompletionItem(name) for name in LISTED if name.startswith(incomplete)]


@click.command(name="help")
@click.argument("command", nargs=-1, shell_complete=_commands)
def help(command: tuple[str, ...]) -> None:
    """Show what a command does, or list the commands.

    \b
    Examples:
      reconciler help
      reconciler help rollout undo
    """
    context = click.Context(reconciler, info_name="reconciler", **reconciler.context_settings)
    for word in command:
        if not isinstance(context.command, click.Group):
            raise click.UsageError(f'"{context.command_path}" has no commands of its own', context)
        name, found, _ = context.command.resolve_command(context, [word])
        assert found is not None
        context = click.Context(found, info_name=name, parent=context)
    click.echo(context.get_help())


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
    made = get_completion_class(shell)
    assert made is not None
    return made(reconciler, {}, "reconciler", "_RECONCILER_COMPLETE").source() + "\n"
