"""Asks for confirmation."""

from __future__ import annotations

import sys

import click


def agreed(question: str) -> bool:
    """Return the answer of a person at the terminal; False without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm(question, err=True)
