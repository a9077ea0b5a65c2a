"""Entry point of the process of a job's rank."""

from __future__ import annotations

import os

from reconciler.wire.launch import CONFIG_VARIABLE, PROGRESS_VARIABLE

from .launcher import live


def main() -> None:
    """Run as the rank that the environment describes. Never returns."""
    progress = os.environ.get(PROGRESS_VARIABLE, "")
    live(os.environ.get(CONFIG_VARIABLE, ""), int(progress) if progress.isdecimal() else None)


if __name__ == "__main__":
    main()
