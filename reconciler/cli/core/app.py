"""The command `reconciler`: its options, its subcommands, and how errors end it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from reconciler.cli.contexts import contexts_file
from reconciler.cli.output.colour import colours
from reconciler.cli.output.streams import shown
from reconciler.cli.output.typed import WITHOUT_CLUSTER, typed
from reconciler.errors import InvalidManifests, ReconcilerError, Unreachable

from .groups import GROUPS

if TYPE_CHECKING:
    from reconciler.cli.contexts.away import Away

USAGE_STATUS = 2
INTERRUPTED_STATUS = 130
UNCUT = 1000
"""Length limit for summaries that no summary reaches."""

UNLISTED = {
    "config": "shell.context",
    "controller": "cluster.processes",
    "gateway": "cluster.processes",
}
"""The modules of commands that `up` starts, and of one of kubectl's words; people need not know them."""
COMMANDS = {
    **{name: module for commands in GROUPS.values() for name, (module, _) in commands.items()},
    **UNLISTED,
}
"""The module of each command."""
HOME_VARIABLE, CONTEXT_VARIABLE = "RECONCILER_HOME", "RECONCILER_CONTEXT"
DEFAULT_HOME = Path("~/.reconciler")
LISTED = [name for commands in GROUPS.values() for name in commands]


@dataclass(frozen=True, slots=True)
class Settings:
    """The cluster of a command."""

    place: Path
    """Its home, on this machine unless it is ``away``."""
    away: Away | None = None

    @property
    def home(self) -> Path:
        """Return the home. Raises ``Refused`` if it is on another machine: commands that need its files must run there."""
        if self.away is not None:
            path = click.get_current_context().command_path
            raise self.away.only_there(path.partition(" ")[2] or "COMMAND")
        return self.place

    @property
    def socket(self) -> Path:
        """Return the path of a socket to the controller. Raises ``Unreachable`` if the other machine does not answer."""
        return self.away.socket() if self.away is not None else self.place / "controller.sock"

    @property
    def cluster(self) -> str:
        """Return a name of the cluster that is unique on this machine: its home, or its context's URL and home."""
        return str(self.place) if self.away is None else self.away.context.where

    @property
    def store(self) -> Path:
        return self.home / "store.db"

    @property
    def repo(self) -> Path:
        """Return the path of the cluster repository, or of a copy of one on another machine."""
        return self.away.repository().path if self.away is not None else self.place / "cluster.git"


def settings_of(home: Path | None, context: str | None, asks: bool = True) -> Settings:
    """Return the settings of `--home` or `--context`; without both, those of the environment, then of the current context.

    Raises ``UsageError`` if both options are given.
    """
    if home is not None and context is not None:
        raise click.UsageError("--home and --context exclude each other")
    if home is None and context is None:
        home_set, context = os.environ.get(HOME_VARIABLE), os.environ.get(CONTEXT_VARIABLE)
        if home_set and context:
            raise click.UsageError(f"{HOME_VARIABLE} and {CONTEXT_VARIABLE} exclude each other; unset one")
        home = Path(home_set) if home_set else None
    if home is not None:
        return Settings(home.expanduser().absolute())
    path = contexts_file.default_path()
    if not context and not path.exists():
        return Settings(DEFAULT_HOME.expanduser())
    contexts = contexts_file.read(path)
    name = context or contexts.current
    if not name:
        return Settings(DEFAULT_HOME.expanduser())
    found = contexts.named(name)
    if not found.ssh:
        return Settings(Path(found.home).expanduser().absolute())
    from reconciler.cli.contexts.away import Away

    return Settings(Path(found.home), Away(found, asks))


class SuggestingGroup(click.Group):
    """A group that suggests the nearest command, or the one for a command of other tools."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write complete summaries: click cuts those that are longer than a line."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(UNCUT)) for name, one in commands if one and not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            message = f'unknown command "{args[0]}"{self._meant(ctx, args[0])}'
            raise click.UsageError(message, ctx) from error

    def _meant(self, ctx: click.Context, word: str) -> str:
        from .hints import for_word

        if hint := for_word(ctx.command_path.split()[1:], word):
            return f"; {hint}"
        close = closest(word, [name for name in self.list_commands(ctx) if name not in UNLISTED])
        return f', did you mean "{close}"?' if close else ""


class Commands(SuggestingGroup):
    """A group that imports a command's module on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, and import none of them."""
        width = max(map(len, LISTED))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in commands.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        found = import_module(f"reconciler.cli.commands.{module}")
        command: click.Command = getattr(found, cmd_name.replace("-", "_"))
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return names of commands without their help, which would need every module."""
        if not incomplete.startswith("-"):
            return [CompletionItem(name) for name in LISTED if name.startswith(incomplete)]
        return click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ReconcilerError, OSError) as error:
            if isinstance(error, BrokenPipeError):  # click ends silently if the reader is gone
                raise
            away = ctx.obj.away if ctx.obj is not None else None
            if away is not None and isinstance(error, Unreachable):
                error = away.explained(error)
            raise Failed(error, ctx) from error

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        return super().resolve_command(ctx, _without_equals(args))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_context_first(args))


def _with_context_first(arguments: list[str]) -> list[str]:
    """Move `--context NAME` to the front: kubectl takes it after the command as well."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for at, word in enumerate(arguments[:end]):
        size = 2 if word == "--context" else 1 if word.startswith("--context=") else 0
        if size and at + size <= end:
            return arguments[at : at + size] + arguments[:at] + arguments[at + size :]
    return arguments


def _without_equals(arguments: list[str]) -> list[str]:
    """Rewrite `-o=json` to `-ojson`; kubectl accepts both."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [
        f"{word[:2]}{word[3:]}" if re.match(r"-[A-Za-z]=.", word) and at < end else word
        for at, word in enumerate(arguments)
    ]


class Failed(click.ClickException):
    def __init__(self, cause: ReconcilerError | OSError, context: click.Context) -> None:
        super().__init__(typed(_sentence(cause), context))
        problems = cause.problems if isinstance(cause, InvalidManifests) else ()
        self.problems = [typed(str(problem), context) for problem in problems]
        # As in kubectl: an error of `diff` must not look like a difference.
        self.status = 2 if context.invoked_subcommand == "diff" else 1


def _sentence(cause: ReconcilerError | OSError) -> str:
    if isinstance(cause, InvalidManifests):
        count = len(cause.problems)
        return (
            f"{count} problem{'' if count == 1 else 's'} in the manifests, listed above; nothing was changed"
        )
    if isinstance(cause, OSError) and cause.filename is not None:
        return f"{os.fsdecode(cause.filename)}: {cause.strerror}"
    return str(cause)


def nearest(word: str, known: list[str]) -> str:
    """Return a clause that suggests the nearest name, or lists them all."""
    close = closest(word, known)
    return f', did you mean "{close}"?' if close else f"; expected one of {', '.join(known)}"


def closest(word: str, known: list[str]) -> str | None:
    """Return the name that was probably meant (a letter or two differ); None if no name is that close."""
    import difflib

    close = difflib.get_close_matches(word, known, 1, 0.65)
    return close[0] if close else None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    help="State folder of the cluster (RECONCILER_HOME); else the current context, else ~/.reconciler.",
)
@click.option(
    "--context",
    "chosen",
    metavar="NAME",
    help="A cluster of `reconciler context list` (RECONCILER_CONTEXT); it may be on another machine.",
)
@click.pass_context
def reconciler(context: click.Context, home: Path | None, chosen: str | None) -> None:
    """Serve models on a cluster, as manifests in git declare.

    Help of one command: reconciler help COMMAND. For people who know kubectl: docs/kubectl.md.

    \b
    Examples:
      reconciler up -f manifests/        run a cluster on this machine, in the foreground
      reconciler get all                 list all objects and their state
      reconciler diff -f manifests/      show what an apply would change
      reconciler plan                    show what the controller would do now, and why it waits
    """
    if context.invoked_subcommand in WITHOUT_CLUSTER:
        context.obj = Settings(DEFAULT_HOME.expanduser())
        return
    try:
        context.obj = settings_of(home, chosen)
    except (ReconcilerError, OSError) as error:
        raise Failed(error, context) from error
    if context.obj.away is not None:
        context.call_on_close(context.obj.away.close)


def run() -> None:
    """Run, and exit with 0, 1 for errors or 2 for wrong usage; `diff` exits with 1 for differences, more for errors."""
    try:
        status = reconciler.main(prog_name="reconciler", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except click.UsageError as error:
        fail(_usage_sentence(error), error.ctx)
        sys.exit(USAGE_STATUS)
    except Failed as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        fail(error.message)
        sys.exit(error.status)
    except click.ClickException as error:
        fail(error.format_message())
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(INTERRUPTED_STATUS)
    sys.exit(status if isinstance(status, int) else 0)


def _usage_sentence(error: click.UsageError) -> str:
    from .hints import ARGUMENTS, OPTIONS

    name = error.ctx.info_name if error.ctx else None
    if isinstance(error, click.MissingParameter) and (example := _example(error.ctx)):
        return f"{error.format_message().rstrip('.')}; such as: {example}"
    if name in ARGUMENTS and error.message.startswith("Got unexpected extra argument"):
        return f"{error.message}; {ARGUMENTS[name]}"
    if isinstance(error, click.NoSuchOption):
        hint = OPTIONS.get(f"{name} {error.option_name}", OPTIONS.get(error.option_name))
        if hint:
            return f"{error.message} {hint[0].upper()}{hint[1:]}"
    return error.format_message()


def _example(context: click.Context | None) -> str:
    """Return the first example of a command's help."""
    _, _, examples = ((context.command.help if context else None) or "").partition("\b\n")
    lines = [line.strip().partition("    ")[0] for line in examples.splitlines()[1:]]
    return next((line for line in lines if line.startswith("reconciler ")), "")


def fail(text: str, context: click.Context | None = None) -> None:
    """Print an error on standard error, and how to get more help."""
    line = click.style("error: ", fg="red", bold=True) + shown(typed(text, context))
    click.echo(line, err=True, color=colours(sys.stderr))
    if context is not None:
        click.echo(f"See: {context.command_path} --help", err=True)
