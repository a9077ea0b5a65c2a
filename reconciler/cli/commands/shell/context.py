"""`context`: names for clusters, here and on other machines; and `config`, kubectl's words for it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from reconciler.cli.contexts.away import Away
from reconciler.cli.contexts.contexts_file import (
    EXAMPLE,
    NAME,
    SSH,
    Context,
    default_path,
    put,
    read,
    remove,
    use,
)
from reconciler.cli.core.app import SuggestingGroup
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.table_layout import table


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in read(default_path()).found if name.startswith(incomplete)]


@click.group(cls=SuggestingGroup)
def context() -> None:
    """Name clusters, and choose the one that commands are for.

    A context is a home on this machine, or one on another machine over SSH. Contexts are in
    ~/.config/reconciler/contexts.yaml. A command is for: --home; else --context; else RECONCILER_HOME or
    RECONCILER_CONTEXT; else the current context; else ~/.reconciler.

    \b
    Examples:
      reconciler context add studio ssh://admin@studio.local
      reconciler context use studio
      reconciler --context studio get all
    """


@context.command(name="list")
@output_option("name")
def list_(output: str | None) -> None:
    """List the contexts; the current one has a star.

    \b
    Example:
      reconciler context list
    """
    contexts = read(default_path())
    if output in ("json", "yaml"):
        every = [{"name": c.name, "home": c.home, "ssh": c.ssh or None} for c in contexts.found.values()]
        print_body({"current": contexts.current or None, "contexts": every}, output)
    elif output == "name":
        click.echo("".join(f"{name}\n" for name in contexts.found), nl=False)
    elif not contexts.found:
        click.echo("No contexts; add one with: reconciler context add NAME ssh://USER@HOST", err=True)
    else:
        rows = [("*" if n == contexts.current else "", n, c.where) for n, c in contexts.found.items()]
        click.echo(table(("CURRENT", "NAME", "WHERE"), rows))


@context.command(name="use")
@click.argument("name", shell_complete=_names)
def use_(name: str) -> None:
    """Make a context the current one.

    \b
    Example:
      reconciler context use studio
    """
    use(default_path(), name)
    click.echo(f'Switched to context "{name}".')
    for variable in ("RECONCILER_HOME", "RECONCILER_CONTEXT"):
        if os.environ.get(variable):
            click.echo(f"note: {variable} is set, and goes before it", err=True)


@context.command()
@click.argument("name")
@click.argument("where")
@click.option(
    "--home", metavar="PATH", help="The home on the other machine; by default, ask for it over SSH."
)
@click.option("--identity-file", metavar="PATH", help="The private key to use; by default, the keys of ssh.")
@click.option("--known-hosts", metavar="PATH", help="The file of host keys to trust; by default, ssh's own.")
def add(name: str, where: str, home: str | None, identity_file: str | None, known_hosts: str | None) -> None:
    """Add a context. WHERE is a folder here, or ssh://USER@HOST[:PORT].

    The host key must be known to ssh already: connect once and compare it.

    \b
    Examples:
      reconciler context add studio ssh://admin@studio.local
      reconciler context add test ~/.reconciler-test
    """
    if not NAME.fullmatch(name):
        raise click.UsageError(
            f'"{name}" is no name for a context; expected letters, digits, ".", "_" and "-"'
        )
    made = Context(name, home or "", where, identity_file or "", known_hosts or "")
    if not where.startswith("ssh:"):
        if home or identity_file or known_hosts:
            raise click.UsageError(
                f"--home, --identity-file and --known-hosts are for other machines: {EXAMPLE}"
            )
        if "/" not in where and not Path(where).is_dir():
            raise click.UsageError(f'there is no folder "{where}"; of another machine: ssh://{where}')
        made = Context(name, str(Path(where).expanduser().absolute()))
    elif not SSH.fullmatch(where):
        raise click.UsageError(f'"{where}": expected {EXAMPLE}')
    elif not (home or "/").startswith("/"):
        raise click.UsageError("--home: expected an absolute path on the other machine")
    elif not home:
        away = Away(made)
        try:
            made = replace(made, home=away.home_there())
        finally:
            away.close()
    put(default_path(), made)
    click.echo(f'context "{name}" added: {made.where}')


@context.command(name="remove")
@click.argument("name", shell_complete=_names)
def remove_(name: str) -> None:
    """Remove a context. Its cluster stays as it is.

    \b
    Example:
      reconciler context remove studio
    """
    remove(default_path(), name)
    click.echo(f'context "{name}" removed')


# --- kubectl's words -------------------------------------------------------------------------------


@click.group(cls=SuggestingGroup, hidden=True)
def config() -> None:
    """Accept kubectl's words for contexts, and name our own commands."""


@config.command(name="get-contexts")
@output_option("name")
@click.pass_context
def get_contexts(ctx: click.Context, output: str | None) -> None:
    """List the contexts."""
    _note("context list")
    ctx.invoke(list_, output=output)


@config.command(name="use-context")
@click.argument("name", shell_complete=_names)
@click.pass_context
def use_context(ctx: click.Context, name: str) -> None:
    """Make a context the current one."""
    _note("context use NAME")
    ctx.invoke(use_, name=name)


@config.command(name="current-context")
def current_context() -> None:
    """Print the current context."""
    _note("context list")
    click.echo(read(default_path()).current or "none")


def _note(command: str) -> None:
    click.echo(f"note: here it is: reconciler {command}", err=True)
