"""What goes on, on standard error, while a command takes longer than people like to wait in silence."""

from __future__ import annotations

import shutil
import sys
import time

import click

from .table_layout import clip, plain

SILENT_SECONDS = 2.0
REPEAT_SECONDS = 15.0


class Progress:
    """Silent for the first two seconds. On a terminal one line that changes; elsewhere one for each new text."""

    def __init__(self) -> None:
        self._began = self._said_at = time.monotonic()
        self._live = sys.stderr.isatty()
        self._text = ""

    def show(self, text: str) -> None:
        """Say what is waited for now."""
        moment = time.monotonic()
        if moment - self._began < SILENT_SECONDS or not text:
            return
        if self._live:
            seconds = f" ({moment - self._began:.0f} s)"
            width = shutil.get_terminal_size().columns - 1 - len(seconds)
            sys.stderr.write(f"\r\x1b[K{clip(plain(text), width)}{seconds}")
            sys.stderr.flush()
        elif text != self._text or moment - self._said_at >= REPEAT_SECONDS:
            click.echo(plain(text), err=True)
            self._said_at = moment
        self._text = text

    def done(self) -> None:
        """Leave the line free for what is printed next."""
        if self._live and self._text:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._text = ""
