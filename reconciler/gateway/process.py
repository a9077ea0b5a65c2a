"""The gateway's process: its loop, its clock, and the signals and the files that end it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from reconciler import descriptors
from reconciler.errors import Conflict, Invalid
from reconciler.services.lock import Lock
from reconciler.wire.file_identity import FileIdentity, wait_until_removed, wait_until_replaced

from .dialects.dialect import Sources
from .files import cannot_listen, write_state
from .routing.timeouts import Timing
from .server import serve

log = logging.getLogger(__name__)

EXIT_CANNOT_LISTEN = 2
WRITE_SECONDS = 1.0
"""The interval of attempts to write a lock that another process holds, or that the disk has no room for."""


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run_gateway(home: Path, any_port: bool, lock: Lock | None = None, take_over: bool = False) -> int:
    """Serve until SIGTERM or SIGINT, or until another gateway has taken over and all answers are given. Returns the
    exit status: 0; 2 if it cannot listen, or has no good certificate while the gateway before may have one.

    ``lock``: that of the home, which is watched; with ``take_over`` the gateway that runs holds it, and hands it over.
    Raises ``NotHandedOver`` if that one hands nothing over.

    Reads ``home/routes.json``, and writes ``home/gateway.json``, ``home/prompts.json``, ``home/usage.json`` and
    ``home/figures.json``.
    """
    log.info("%d descriptors", descriptors.raised())
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(_serve_until_signalled(home, any_port, lock, take_over))
        except (Invalid, Conflict) as error:
            if not take_over:
                write_state(home, cannot_listen(str(error)))
            sys.stderr.write(f"gateway: {error}\n")
            return EXIT_CANNOT_LISTEN
    return 0


def _new_id() -> str:
    return os.urandom(12).hex()  # as ``secrets`` does, with fewer layers, because each request draws three


def _new_seed() -> int:
    return int.from_bytes(os.urandom(8)) >> 1


async def _serve_until_signalled(home: Path, any_port: bool, lock: Lock | None, take_over: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sources = Sources(time.time, _new_id, _new_seed)
    held = [] if lock is None else [lock.identity]
    watching = [asyncio.create_task(watch_identity(home, stop, *held), name="watch the home")]
    if lock is not None:
        watching.append(asyncio.create_task(write_down(lock), name="write down who holds the lock"))
    try:
        await serve(home, any_port, stop, Timing(), sources, lock=lock, take_over=take_over)
    finally:
        for each in watching:
            each.cancel()


async def write_down(lock: Lock) -> None:
    """Write the holder of the lock as soon as this process holds it and the disk has room: until then, nobody finds
    this process through it."""
    while not lock.written:
        await asyncio.sleep(WRITE_SECONDS)
        with contextlib.suppress(OSError):
            lock.write()


async def watch_identity(home: Path, stop: asyncio.Event, *held: FileIdentity) -> None:
    """Stop when the home, or the lock in it, is removed: another gateway may serve its replacement."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if held:
        await wait_until_replaced(*held)
    else:
        await wait_until_removed(home)
    log.error("%s was removed: the gateway stops", held[0].path if held else home)
    stop.set()
