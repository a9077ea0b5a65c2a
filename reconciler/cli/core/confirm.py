"""Asks for confirmation."""

from __future__ import annotations

import sys

import click

from reconciler.cli.output.typed import typed


def agreed(question: str) -> bool:
    """Return the answer of a person at the terminal; False without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm(question, err=True)


def to_be_committed(commit: bool) -> bool:
    """Return whether to commit the manifest that was printed: with ``commit``, or if a person agrees; else say how to."""
    if commit or agreed("commit this?"):
        return True
    text = "not committed; repeat the command with --commit, or pipe this to: reconciler apply -f -"
    click.echo(typed(text), err=True)
    return False
