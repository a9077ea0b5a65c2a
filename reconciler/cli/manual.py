"""Writes the manual page and the shells' completions into a folder, or checks them:
``python -m reconciler.cli.manual FOLDER [--check]``.

For the macros of the page see man(7).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from .commands.read.completion import SHELLS, script
from .core.app import LISTED, reconciler
from .core.groups import grouped
from .reference import EXITS, USUAL_EXITS

NAMES = {"bash": "reconciler.bash", "zsh": "_reconciler", "fish": "reconciler.fish"}
"""Files of the completions, as each shell looks for them."""
PAGE = "reconciler.1"


def files() -> dict[str, str]:
    """Return the exact contents of the folder, by file name."""
    return {PAGE: "".join(_page()), **{NAMES[shell]: script(shell) for shell in SHELLS}}


def _page() -> Iterator[str]:
    root = click.Context(reconciler, info_name="reconciler")
    yield ".\\\" Written by `python -m reconciler.cli.manual`; edit the commands' own help instead.\n"
    yield '.TH RECONCILER 1 "" "reconciler" "User Commands"\n.SH NAME\n'
    yield "reconciler \\- keep large language models running on a cluster of Macs\n"
    yield ".SH SYNOPSIS\n.B reconciler\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n"
    yield f".SH DESCRIPTION\n{_text(reconciler.help)}.SH OPTIONS\n"
    yield from _options(root)
    yield ".TP\n\\fB\\-h, \\-\\-help\\fR\nShow the help of a command.\n"
    for title, names in grouped(LISTED):
        yield f".SH {_escaped(title).upper()}\n"
        for name in names:
            command = reconciler.get_command(root, name)
            assert command is not None
            yield from _command(click.Context(command, info_name=name, parent=root))
    yield ".SH FILES\n.TP\n.I ~/.reconciler\nThe home of a cluster, unless \\-\\-home or RECONCILER_HOME names another.\n"


def _command(context: click.Context) -> Iterator[str]:
    command = context.command
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    yield f".SS {_escaped(' '.join([context.command_path, *pieces]))}\n{_text(command.help)}"
    yield from _options(context)
    yield f".PP\nExits with {_escaped(EXITS.get(context.info_name or '', USUAL_EXITS))}.\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(click.Context(inner, info_name=name, parent=context))


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record and "--help" not in parameter.opts:
            yield f".TP\n\\fB{_escaped(record[0])}\\fR\n{_escaped(record[1]) or ' '}\n"


def _text(help_text: str | None) -> str:
    """Return a command's help as paragraphs, and its examples as they are typed."""
    purpose, _, examples = inspect.cleandoc(help_text or "").partition("\b\n")
    paragraphs = [f"{_escaped(' '.join(each.split()))}\n" for each in purpose.strip().split("\n\n")]
    shown = f".PP\n.nf\n{_escaped(examples.rstrip())}\n.fi\n" if examples else ""
    return ".PP\n".join(paragraphs) + shown


def _escaped(text: str) -> str:
    """Return text in which roff finds no request or escape."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in safe.split("\n"))


def main(arguments: list[str]) -> int:
    """Return the exit status: 1 if ``--check`` finds something to write."""
    folders = [argument for argument in arguments if argument != "--check"]
    if len(folders) != 1:
        sys.stderr.write("usage: python -m reconciler.cli.manual FOLDER [--check]\n")
        return 2
    folder, outdated = Path(folders[0]), 0
    for name, wanted in files().items():
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        if "--check" in arguments:
            sys.stdout.write(f"{path} is outdated: write it with python -m {__spec__.name} {folder}\n")
            outdated = 1
        else:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
    return outdated


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
