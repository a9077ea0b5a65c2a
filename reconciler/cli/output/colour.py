"""Colours of states on a terminal: green is as wanted, yellow is in progress, red needs somebody."""

from __future__ import annotations

import os
import sys
from typing import Any, Literal

import click

Colour = Literal["", "green", "yellow", "red"]


class Cell(str):
    """A cell of a table that has a colour where colours are shown."""

    colour: Colour = ""

    @classmethod
    def of(cls, text: str, colour: Colour) -> Cell:
        made = cls(text)
        made.colour = colour
        return made


def painted(text: str, like: str) -> str:
    """Return a text in the colour of a cell, for standard output."""
    colour = like.colour if isinstance(like, Cell) else ""
    return click.style(text, fg=colour) if colour and text and colours(sys.stdout) else text


def colours(stream: Any) -> bool:
    """Return whether to use colours: only on a terminal, and not with NO_COLOR (no-color.org)."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR")
