"""Asking a person, where there is one."""

from __future__ import annotations

import sys

import click


def agreed(question: str) -> bool:
    """What a person at the terminal says; no where there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm(question, err=True)
