"""The gateway's process: it knows the routes in its home, and no other room."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from reconciler.errors import Conflict
from reconciler.gateway import process
from reconciler.gateway.handover.taking_over import NotHandedOver
from reconciler.services.lock import NOT_HANDED_OVER, holder, to_inherit
from reconciler.wire.log_lines import log_to

from .home import GATEWAY, LOG_FORMAT, Home, own_start

log = logging.getLogger("reconciler")


def run_gateway(home: Path, any_port: bool, take_over: bool = False) -> int:
    """Run the gateway until it is stopped; return its exit status. ``any_port``: use the next free port if it is taken.

    ``take_over``: take over from the running gateway, if there is one. The status is ``NOT_HANDED_OVER`` if it hands
    nothing over.
    """
    log_to(sys.stderr, LOG_FORMAT)
    place = Home(home.absolute())
    try:
        if take_over and holder(place.lock_of(GATEWAY)) is not None:
            with to_inherit(place.lock_of(GATEWAY), own_start()) as lock:
                return process.run_gateway(place.root, any_port, lock, take_over)
        with place.lock_to_hand_over(GATEWAY) as lock:
            return process.run_gateway(place.root, any_port, lock)
    except NotHandedOver as error:
        log.info("%s", error)
        return NOT_HANDED_OVER
    except (Conflict, OSError) as error:
        log.error("%s", error)
        return 1
