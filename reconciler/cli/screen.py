"""What `up` says: lines that stay, and on a terminal one that shows what goes on right now."""

from __future__ import annotations

import shutil
import sys
import time

import click

REPEAT_SECONDS = 15.0
"""Where there is no terminal, the same text is not printed again sooner."""


class Screen:
    """The foreground of `up`. ``seconds_silent`` is how long nothing new has been said."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._passing = ""
        self._spoke_at = self._passed_at = time.monotonic()

    def __call__(self, text: str) -> None:
        """A line, or several, that stay."""
        self._clear()
        click.echo(text)
        self._passing = ""
        self._spoke_at = time.monotonic()

    def now(self, text: str) -> None:
        """What is going on; on a terminal the next line of any kind takes its place."""
        self._spoke_at = time.monotonic()
        if self._live:
            self._clear()
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write(text[:width])
            sys.stdout.flush()
            self._passing = text
        elif text != self._passing or self._spoke_at - self._passed_at >= REPEAT_SECONDS:
            click.echo(text)
            self._passing, self._passed_at = text, self._spoke_at

    @property
    def seconds_silent(self) -> float:
        return time.monotonic() - self._spoke_at

    def _clear(self) -> None:
        if self._live and self._passing:
            sys.stdout.write("\r\x1b[K")
