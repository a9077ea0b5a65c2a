"""The gateway's process: it knows the routes in its home, and no other room."""

from __future__ import annotations

import sys
from pathlib import Path

from reconciler.gateway import server
from reconciler.wire.log_lines import log_to

from .parent import LOG_FORMAT, end_with_parent


def run_gateway(home: Path, any_port: bool) -> int:
    """Run the gateway until it is stopped; its exit status. ``any_port``: the next free one if it is taken."""
    log_to(sys.stderr, LOG_FORMAT)
    end_with_parent()
    return server.run_gateway(home.absolute(), any_port)
