"""The command line: kubectl's words for what kubectl has. The only room that prints."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the arguments name, and exit; quietly also where Ctrl-C comes before it has begun."""
    try:
        from .app import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
