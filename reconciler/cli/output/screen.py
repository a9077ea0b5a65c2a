"""The output of a command while it works: permanent lines, and on a terminal one line with the current activity."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

import click

from .streams import erase_line
from .table_layout import clip, plain
from .typed import typed

REPEAT_SECONDS = 15.0
"""Without a terminal, time after which the same text is repeated."""
QUIET_SECONDS = 2.0
"""Shorter waits are silent."""


class Screen:
    """The output of `up` and of commands that wait. ``seconds_silent`` is how long nothing new was printed.

    Activity is first shown ``after_seconds`` from now, so that quick commands show none. ``stream`` is standard
    output by default. ``timed``: on a terminal, show how long the activity has taken.
    """

    def __init__(self, stream: TextIO | None = None, after_seconds: float = 0.0, timed: bool = False) -> None:
        self._stream = stream or sys.stdout
        self._timed = timed
        self._live = self._stream.isatty()
        self._passing = ""
        self._began_at = self._spoke_at = self._passed_at = time.monotonic()
        self._shows_from = self._spoke_at + after_seconds
        self._once: set[str] = set()

    def __call__(self, text: str) -> None:
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
            self._stream.write(self._line(text))
            self._stream.flush()
            self._passing = text
        elif text != self._passing or self._spoke_at - self._passed_at >= REPEAT_SECONDS:
            click.echo(plain(text) if self._timed else typed(text), file=self._stream)
            self._passing, self._passed_at = text, self._spoke_at

    def _line(self, text: str) -> str:
        width = shutil.get_terminal_size().columns - 1
        if not self._timed:
            return text[:width]
        seconds = f" ({self._spoke_at - self._began_at:.0f} s)"
        return f"{clip(plain(text), width - len(seconds))}{seconds}"

    @property
    def seconds_silent(self) -> float:
        return time.monotonic() - self._spoke_at

    def clear(self) -> None:
        """Remove the activity line from a terminal, before other output."""
        if self._live and self._passing:
            erase_line(self._stream)
            self._stream.flush()
            self._passing = ""


def quiet_screen(aside: bool = True, timed: bool = False) -> Screen:
    """Return the screen of a command that may be quick: on standard error, or if not ``aside``, on standard output."""
    return Screen(sys.stderr if aside else sys.stdout, QUIET_SECONDS, timed)
