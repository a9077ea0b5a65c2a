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

from .commands.shell.help import SHELLS, script
from .core.app import reconciler
from .core.groups import GROUPS
from .reference import EXITS, USUAL_EXITS, contexts, write_all

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
    for title, names in GROUPS.items():
        yield f".SH {_escaped(title).upper()}\n"
        for context in contexts(root, names):
            yield from _command(context)
    yield ".SH FILES\n.TP\n.I ~/.reconciler\nThe home of a cluster, unless \\-\\-home or RECONCILER_HOME names another.\n"


def _command(context: click.Context) -> Iterator[str]:
    command = context.command
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    yield f".SS {_escaped(' '.join([context.command_path, *pieces]))}\n{_text(command.help)}"
    yield from _options(context)
    yield f".PP\nExits with {_escaped(EXITS.get(context.info_name or '', USUAL_EXITS))}.\n"


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

    def made(folder: Path) -> dict[Path, str]:
        return {folder / name: text for name, text in files().items()}

    return write_all(arguments, made, "reconciler.cli.manual FOLDER")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
