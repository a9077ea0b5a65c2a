"""Entry point of a rank: reads the environment, and turns the way the rank ends into an exit status."""

from __future__ import annotations

import os
import signal
import sys

from reconciler.wire.launch import CONFIG_LATER, CONFIG_VARIABLE, PROGRESS_VARIABLE, ExitCode

from .rank import live
from .standby import wait_for_config


def main() -> int:
    """Run as the rank that the environment describes. Return the exit status."""
    # Weights and tokenizers come from this machine's disk alone: a rank never asks a hub.
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    progress = os.environ.get(PROGRESS_VARIABLE, "")
    config = os.environ.get(CONFIG_VARIABLE, "")
    if config == CONFIG_LATER:
        config = wait_for_config(sys.stdin.fileno(), int(progress))
        if not config:
            return ExitCode.OK
    try:
        return live(config, int(progress) if progress.isdecimal() else None)
    finally:
        _ignore_signals()


def _ignore_signals() -> None:
    """Ignore signals: the interpreter restores default handlers at its end, and a late SIGTERM would look like a
    crash."""
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
