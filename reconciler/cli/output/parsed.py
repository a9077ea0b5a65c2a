"""The type of options whose value a function makes of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from reconciler.errors import Invalid

T = TypeVar("T")


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
