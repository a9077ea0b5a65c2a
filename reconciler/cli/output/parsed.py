"""The types of options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from reconciler.errors import Invalid

T = TypeVar("T")

PATH = click.Path(path_type=Path)
THERE = click.Path(path_type=Path, exists=True)
"""A file or folder that exists."""
FOLDER = click.Path(path_type=Path, file_okay=False)


class Parsed(click.ParamType[T]):
    """A value made of text by ``read``, whose ``ValueError`` or ``Invalid`` says what was expected."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            made: T = value
            return made
        try:
            return self._read(value)
        except (ValueError, Invalid) as error:
            self.fail(str(error), param, ctx)


def number_option(*names: str, help: str, least: int = 1) -> Callable[[Any], Any]:
    """Return an option with a number N."""
    return click.option(*names, type=click.IntRange(least), metavar="N", help=help)
