"""The output of a command while it works: permanent lines, and on a terminal one line with the current activity."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

import click

from .streams import erase_line
from .typed import typed

REPEAT_SECONDS = 15.0
"""Without a terminal, time after which the same text is repeated."""


class Screen:
    """The output of `up` and of commands that wait. ``seconds_silent`` is how long nothing new was printed.

    Activity is first shown ``after_seconds`` from now, so that quick commands show none. ``stream`` is standard
    output by default.
    """

    def __init__(self, stream: TextIO | None = None, after_seconds: float = 0.0) -> None:
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._passing = ""
        self._spoke_at = self._passed_at = time.monotonic()
        self._shows_from = self._spoke_at + after_seconds
        self._once: set[str] = set()

    def __call__(self, text: str) -> None:
        """Print permanent lines."""
        self.clear()
        click.echo(typed(text), file=self._stream)
        self._passing = ""
        self._spoke_at = time.monotonic()

    def once(self, text: str) -> None:
        """Print permanent lines unless this has printed them before."""
        if text not in self._once:
            self._once.add(text)
            self(text)

    def show(self, text: str) -> None:
        """Show the current activity; on a terminal the next line replaces it."""
        self._spoke_at = time.monotonic()
        if self._spoke_at < self._shows_from:
            return
        if self._live:
            self.clear()
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(text[:width])
            self._stream.flush()
            self._passing = text
        elif text != self._passing or self._spoke_at - self._passed_at >= REPEAT_SECONDS:
            click.echo(typed(text), file=self._stream)
            self._passing, self._passed_at = text, self._spoke_at

    @property
    def seconds_silent(self) -> float:
        return time.monotonic() - self._spoke_at

    def clear(self) -> None:
        """Remove the activity line from a terminal, before other output."""
        if self._live and self._passing:
            erase_line(self._stream)
            self._stream.flush()
            self._passing = ""
