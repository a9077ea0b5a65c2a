"""The console's process: it asks the controller of its home, and knows no other room."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

from reconciler.errors import Conflict
from reconciler.wire.log_lines import log_to

from .home import CONSOLE, LOG_FORMAT, Home

log = logging.getLogger("reconciler")

NICENESS = 10
"""Pages never take a core from processes that serve."""


def run_console(home: Path, any_port: bool) -> int:
    """Run the console until it is stopped; return its exit status. ``any_port``: use the next free port if it is
    taken."""
    os.nice(NICENESS)
    from reconciler.console.server import (
        run_console,
    )  # takes half a second of a core that other processes need first
    from reconciler.console.settings import Places

    log_to(sys.stderr, LOG_FORMAT)
    place = Home(home.absolute())
    try:
        with place.lock(CONSOLE) as identity:
            places = Places(place.socket, place.console, place.repo, time.time)
            return run_console(places, any_port, identity)
    except (Conflict, OSError) as error:
        log.error("%s", error)
        return 1
