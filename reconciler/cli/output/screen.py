"""What a command says while it works: lines that stay, and on a terminal one that shows what goes on right now."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

import click

REPEAT_SECONDS = 15.0
"""Where there is no terminal, the same text is not printed again sooner."""


class Screen:
    """The foreground of `up` and of whatever waits. ``seconds_silent`` is how long nothing new has been said.

    What goes on is first shown ``after_seconds`` from now: who gets an answer sooner needs no more. ``stream``
    is standard output where it is not given.
    """

    def __init__(self, stream: TextIO | None = None, after_seconds: float = 0.0) -> None:
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._passing = ""
        self._spoke_at = self._passed_at = time.monotonic()
        self._shows_from = self._spoke_at + after_seconds

    def __call__(self, text: str) -> None:
        """A line, or several, that stay."""
        self.clear()
        click.echo(text, file=self._stream)
        self._passing = ""
        self._spoke_at = time.monotonic()

    def show(self, text: str) -> None:
        """What is going on; on a terminal the next line of any kind takes its place."""
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
            click.echo(text, file=self._stream)
            self._passing, self._passed_at = text, self._spoke_at

    @property
    def seconds_silent(self) -> float:
        return time.monotonic() - self._spoke_at

    def clear(self) -> None:
        """Take the passing line off a terminal, before somebody else writes there."""
        if self._live and self._passing:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._passing = ""
