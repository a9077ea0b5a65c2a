"""The console's process: it asks the controller in its home, and knows no other room."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

from reconciler.errors import Conflict
from reconciler.wire.log_lines import log_to

from .home import CONSOLE, Home
from .log_format import LOG_FORMAT

log = logging.getLogger("reconciler")

NICENESS = 10
"""A page never takes a core from what serves."""


def run_console(home: Path, any_port: bool) -> int:
    """Run the console until it is stopped; its exit status. ``any_port``: the next free one if it is taken."""
    os.nice(NICENESS)
    from reconciler.console.server import run_console  # takes half a second of a core that others need first
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
