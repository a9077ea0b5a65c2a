"""The file with the figures of requests, which the controller reads for the plots of the last hours."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import orjson

from reconciler.wire import SPOKEN
from reconciler.wire.codec import to_wire
from reconciler.wire.figures import GatewayFigures, ModelFigures

log = logging.getLogger(__name__)

Counted = tuple[tuple[float, ...], tuple[ModelFigures, ...]]

SAVED_SECONDS = 5.0
"""The interval of writes while requests come: half the controller's interval of measurements."""


async def keep(path: Path, counted: Callable[[], Counted | None]) -> None:
    """Write it regularly if something has changed, until cancelled. A full disk is no reason to stop serving.

    ``counted`` returns bounds and counts; None while another gateway writes the file.
    """
    written = None
    while True:
        found = counted()
        figures = written if found is None else GatewayFigures(SPOKEN[-1], os.getpid(), *found)
        if figures is not None and figures != written:
            draft = path.with_name(f".{path.name}.new")
            try:
                draft.write_bytes(orjson.dumps(to_wire(figures), option=orjson.OPT_APPEND_NEWLINE))
                draft.replace(path)
                written = figures
            except OSError as error:
                log.warning("cannot write %s, trying again later: %s", path, error)
        await asyncio.sleep(SAVED_SECONDS)
