"""Shows progress on standard error while a command takes long."""

from __future__ import annotations

import shutil
import sys
import time

import click

from .streams import erase_line
from .table_layout import clip, plain

SILENT_SECONDS = 2.0
REPEAT_SECONDS = 15.0


class Progress:
    """Shows nothing for two seconds; then one changing line on a terminal, elsewhere a line for each new text."""

    def __init__(self) -> None:
        self._began = self._shown_at = time.monotonic()
        self._live = sys.stderr.isatty()
        self._text = ""

    def show(self, text: str) -> None:
        """Show the text of the present wait."""
        moment = time.monotonic()
        if moment - self._began < SILENT_SECONDS or not text:
            return
        if self._live:
            seconds = f" ({moment - self._began:.0f} s)"
            width = shutil.get_terminal_size().columns - 1 - len(seconds)
            erase_line(sys.stderr)
            sys.stderr.write(f"{clip(plain(text), width)}{seconds}")
            sys.stderr.flush()
        elif text != self._text or moment - self._shown_at >= REPEAT_SECONDS:
            click.echo(plain(text), err=True)
            self._shown_at = moment
        self._text = text

    def done(self) -> None:
        """Clear the line for the next output."""
        if self._live and self._text:
            erase_line(sys.stderr)
            sys.stderr.flush()
            self._text = ""
