"""`help`: show the help of a command."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from reconciler.cli.core.app import LISTED, reconciler


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
