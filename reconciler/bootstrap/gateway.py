"""The gateway's process: it knows the routes in its home, and no other room."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from reconciler.errors import Conflict
from reconciler.gateway import server
from reconciler.wire.log_lines import log_to

from .home import GATEWAY, Home
from .log_format import LOG_FORMAT

log = logging.getLogger("reconciler")


def run_gateway(home: Path, any_port: bool) -> int:
    """Run the gateway until it is stopped; its exit status. ``any_port``: the next free one if it is taken."""
    log_to(sys.stderr, LOG_FORMAT)
    place = Home(home.absolute())
    try:
        with place.lock(GATEWAY) as identity:
            return server.run_gateway(place.root, any_port, identity)
    except (Conflict, OSError) as error:
        log.error("%s", error)
        return 1
