"""Writes the reference of all commands into a page, or checks it: ``python -m reconciler.cli.reference PAGE [--check]``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from .core.app import LISTED, reconciler
from .core.groups import GROUPS

BEGIN = "<!-- Written by `python -m reconciler.cli.reference`; edit the commands' own help instead. -->"
END = "<!-- end of what is written -->"

USUAL_EXITS = "0; 1 for an error; 2 for wrong usage"
EXITS = {
    "verify": "0 if every check passed; 1 if one failed, or for an error; 2 for wrong usage",
    "doctor": "0 without findings; 1 with findings, or for an error; 2 for wrong usage",
    "examine": "0 if every precondition passes that applies; 1 if one fails or is unknown, or for an error; 2 for wrong"
    " usage",
    "validate": "0 if the manifests are valid; 1 for problems; 2 for wrong usage",
    "apply": f"{USUAL_EXITS}; 1 with `--dry-run=server` too, if it would be held or refused",
    "diff": "0 for no difference; 1 for differences; 2 for an error, wrong usage among them",
    "plan": "0; 1 for an error; 2 for wrong usage, or with `--exit-code` if there are steps",
    "get": f"{USUAL_EXITS}; 130 for a watch that Ctrl-C ends",
    "events": f"{USUAL_EXITS}; 130 for a watch that Ctrl-C ends",
    "incidents": f"{USUAL_EXITS}; 130 for a watch that Ctrl-C ends",
    "logs": f"{USUAL_EXITS}; with `--follow`, 1 too for a run of a job that has not succeeded; 130 if Ctrl-C ends it",
    "wait": "0 once the conditions are met; 1 for an error or a time-out, and for a job that has ended otherwise; 2 for wrong"
    " usage; 124 if a job has not ended in time",
    "reboot": f"{USUAL_EXITS}; 130 if Ctrl-C ends the wait: the restarts continue",
    "up": f"{USUAL_EXITS}; 130 if Ctrl-C comes before anything was started",
}


def written(page: str) -> str:
    """Return the page with the current reference. Raises ``ValueError`` for a page without its marks."""
    return between(page, BEGIN, "".join(_reference()))


def between(page: str, begin: str, content: str) -> str:
    """Return the page with ``content`` between its marks. Raises ``ValueError`` for a page without them."""
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"the page needs these two lines:\n{begin}\n{END}")
    return f"{before}{begin}\n\n{content}{END}{after}"


def _reference() -> Iterator[str]:
    root = click.Context(reconciler, info_name="reconciler")
    for title, names in GROUPS.items():
        yield f"- {title}: {', '.join(f'[{name}](#{name})' for name in names)}\n"
    yield f"\nEach exits with {USUAL_EXITS}, unless it says otherwise.\n\n"
    for context in contexts(root, LISTED):
        yield from _command(context)


def contexts(parent: click.Context, names: Iterable[str]) -> Iterator[click.Context]:
    """Yield a context for each command of a group, followed by those of its own commands."""
    assert isinstance(parent.command, click.Group)
    for name in names:
        command = parent.command.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent)
        yield context
        if isinstance(command, click.Group):
            yield from contexts(context, command.list_commands(context))


def _command(context: click.Context) -> Iterator[str]:
    command = context.command
    path = context.command_path.removeprefix("reconciler ")
    yield f"### {path}\n\n"
    purpose, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
    yield f"{purpose.strip()}\n\n"
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    yield f"```text\nreconciler {' '.join([path, *pieces])}\n```\n\n"
    if examples:
        lines = inspect.cleandoc(examples.partition("\n")[2]).splitlines()
        yield "```text\n" + "\n".join(map(_commented, lines)) + "\n```\n\n"
    rows = [row for row in map(_option, command.get_params(context)) if row]
    if len(rows) > 1:
        yield "| option | |\n|---|---|\n" + "".join(rows[:-1]) + "\n"
    if context.info_name in EXITS:
        yield f"Exits with {EXITS[context.info_name]}.\n\n"


def _commented(line: str) -> str:
    """Return an example as a shell line, with its remark as a comment."""
    command, gap, remark = line.partition("    ")
    return f"{command.ljust(60)} # {remark.strip()}" if gap and remark.strip() else line


def _option(parameter: click.Parameter) -> str:
    if not isinstance(parameter, click.Option) or parameter.hidden:
        return ""
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = "" if parameter.is_flag else f" {parameter.make_metavar(click.Context(reconciler))}"
    help_text = (parameter.help or "").replace("|", "\\|")
    default = parameter.default
    said = parameter.show_default and isinstance(default, str | int) and not isinstance(default, bool)
    shown = f" Default: `{default}`." if said else ""
    cell = names + (f" `{value.strip()}`" if value else "")
    return f"| {cell.replace('|', chr(92) + '|')} | {help_text}{shown} |\n"


def main(
    arguments: list[str], written: Callable[[str], str] = written, module: str = "reconciler.cli.reference"
) -> int:
    """Write a page, or with ``--check`` compare it. Return the exit status: 1 if there is something to write."""
    return write_all(
        arguments, lambda page: {page: written(page.read_text(encoding="utf-8"))}, f"{module} PAGE"
    )


def write_all(arguments: list[str], made: Callable[[Path], dict[Path, str]], usage: str) -> int:
    """Write the files that are made for a page or folder, or with ``--check`` compare them. Return the exit status: 1 if
    there is something to write."""
    places = [Path(argument) for argument in arguments if argument != "--check"]
    if len(places) != 1:
        sys.stderr.write(f"usage: python -m {usage} [--check]\n")
        return 2
    outdated = 0
    for path, wanted in made(places[0]).items():
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        if "--check" in arguments:
            module = usage.partition(" ")[0]
            sys.stdout.write(f"{path} is outdated: write it with python -m {module} {places[0]}\n")
            outdated = 1
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
    return outdated


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
