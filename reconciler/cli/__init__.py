"""The command line: kubectl's words for what kubectl has. The only room that prints."""

from __future__ import annotations


def main() -> None:
    """Run the command that the arguments name, and exit."""
    from .app import run

    run()
