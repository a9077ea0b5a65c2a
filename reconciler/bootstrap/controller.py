"""The controller's process: all its parts, built once.

The only module that knows every room but the gateway's.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

from reconciler.admission import removals
from reconciler.controller.admin.answer import Admin
from reconciler.controller.clock_gaps import ClockGaps, Clocks, elapsed, loop_time
from reconciler.controller.desired_state import DesiredState
from reconciler.controller.figures.keeper import Keeper
from reconciler.controller.loop import Loop
from reconciler.controller.notifications import Notifications
from reconciler.controller.parts import Lease, Parts, Surroundings
from reconciler.controller.publish import Publisher
from reconciler.controller.repository_care import RepositoryCare
from reconciler.controller.routes_file import RoutesFile
from reconciler.descriptors import raised
from reconciler.errors import Damaged, Deposed, Invalid, ReconcilerError
from reconciler.execution import Executor, Tools
from reconciler.execution.gateways import Gateways
from reconciler.execution.hub import Hub
from reconciler.inventory import (
    Collector,
    GatewayProbe,
    GatewaysOnNodes,
    observe_console,
    observe_figures,
    observe_gateway,
    observe_supervision,
)
from reconciler.outgoing.webhooks import Webhooks
from reconciler.remote.machines import Machines
from reconciler.services.lock import holder, stopped_holder
from reconciler.source.git import hooks
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.sources import DirectorySource, GitSource, Source
from reconciler.state import GatewayObservation, ObjectKey
from reconciler.state.reports.status import Event
from reconciler.store import Store
from reconciler.wire.file_identity import FileIdentity
from reconciler.wire.log_lines import log_to

from .home import CONSOLE, LOG_FORMAT, Home
from .machines import machines_of
from .remote import RemoteTasks, remote_of
from .store import open_store

log = logging.getLogger("reconciler")
TIDY_SECONDS = 60.0
"""Interval of searches of the source for leftovers of killed processes, and of examinations of the whole store."""
EXIT_DEPOSED = 75
"""Another controller has taken over, or must: lock or store were replaced or damaged (``EX_TEMPFAIL``, sysexits.h)."""


def run_controller(home: Path, watch: Path | None) -> int:
    """Run the controller until it is stopped; return its exit status. ``watch``: a folder instead of the repository."""
    log_to(sys.stderr, LOG_FORMAT)
    place = Home(home.absolute())
    try:
        place.check()
        place.create()
        log.info("%d descriptors", raised())
        with place.lock() as identity:
            asyncio.run(_control(place, watch, identity))
    except Damaged as error:
        log.error("%s: this controller ends, and the next one begins a new store", error)
        return EXIT_DEPOSED
    except Deposed as error:
        log.error("%s", error)
        return EXIT_DEPOSED
    except (ReconcilerError, OSError) as error:
        log.error("%s", error)
        return 1
    return 0


async def _control(home: Home, watch: Path | None, identity: FileIdentity) -> None:
    source = await _source(home, watch)
    store = open_store(home, time.time())
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(store.close)
        machines = machines_of(home)
        stack.push_async_callback(machines.close)
        probe = GatewayProbe(lambda: observe_gateway(home.gateway, home.prompts, home.usage))
        gateways = Gateways(machines.gateway, home.gateways_on_nodes, home.gateway_key)
        loop, parts = compose(_surroundings(home, source, machines, probe, gateways), store)
        parts.lease.identity = (identity, *store.identities)
        stack.push_async_callback(parts.collector.close)
        stack.push_async_callback(parts.gateways.close)
        stack.push_async_callback(parts.executor.close)
        stack.push_async_callback(parts.notifications.close)
        remote = remote_of(home, source, loop, parts)
        admin = Admin(parts, loop, source.describe(), remote.following if remote else None)
        server = await admin.listen(home.socket)
        stack.push_async_callback(server.close)
        _end_on_signals(loop.end)
        await stack.enter_async_context(_following(source, loop, parts, remote))
        await stack.enter_async_context(_asking(probe))
        log.info("controller of %s is running, pid %d", home.root, os.getpid())
        await loop.run()


def _surroundings(
    home: Home,
    source: Source,
    machines: Machines,
    gateway: Callable[[], GatewayObservation | None],
    gateways: Gateways,
) -> Surroundings:
    return Surroundings(
        source=source,
        routes=RoutesFile(home.routes),
        machines=machines,
        gateway=gateway,
        entropy=lambda: secrets.token_hex(32),
        clocks=Clocks(time.time, loop_time, elapsed),
        post=Webhooks(os.environ).post,
        hub=Hub(os.environ),
        figures=home.figures,
        requests=lambda: observe_figures(home.gateway_figures),
        supervision=lambda: observe_supervision(home.supervision),
        stopped_up=lambda: stopped_holder(home.root / "up.lock"),
        gateways=gateways,
        artifacts=home.artifacts,
        console=lambda: observe_console(home.console) if holder(home.lock_of(CONSOLE)) is not None else "",
    )


def compose(around: Surroundings, store: Store) -> tuple[Loop, Parts]:
    """Build a controller that is not running yet."""
    clock, lease = around.clocks.wall, Lease()

    def news() -> None:
        loop.trigger()

    collector = Collector(around.machines, clock, news, lambda name: lease.token(name, store.token))
    gateways = around.gateways
    tools = Tools(
        store,
        collector,
        around.machines,
        clock,
        hub=around.hub,
        gateways=gateways,
        artifacts=around.artifacts,
    )
    tools.runtimes.on_news = news
    publisher = Publisher(store, around.routes)
    watcher = GatewaysOnNodes(gateways.on, news)
    gateways.watcher, publisher.routed = watcher, gateways.follow

    def watch_gateways() -> None:
        watcher.watch(gateways.names)
        loop.trigger()

    gateways.on_news = watch_gateways
    seen = around.gateway()
    if seen is not None and seen.token >= store.token:
        # The store was lost: the gateway refuses an older token.
        store.renew(above=seen.token)

    def tell(event: Event) -> None:
        publisher.publish_events((event,))

    def serving(keys: Collection[ObjectKey]) -> frozenset[ObjectKey]:
        nodes = collector.nodes()
        if store.is_new and not all(seen.report for seen in nodes.values()):
            return frozenset(keys)  # the store was lost, and not every node has reported its ranks yet
        alive = {rank.workload for seen in nodes.values() for rank in seen.ranks if rank.alive}
        return removals.serving(keys, alive | store.groups().keys(), around.gateway() is not None)

    parts = Parts(
        around=around,
        store=store,
        desired_state=DesiredState(around.source, store, clock, tell, serving),
        care=RepositoryCare(around.source, clock, tell),
        collector=collector,
        executor=Executor(tools, lambda outcome: loop.finished(outcome), lambda error: loop.deposed(error)),
        publisher=publisher,
        notifications=Notifications(store, around.post, clock, news),
        clock_gaps=ClockGaps(around.clocks),
        figures=Keeper(around.figures, collector.nodes, around.requests, clock),
        gateways=watcher,
        lease=lease,
    )
    loop = Loop(parts)
    return loop, parts


async def _source(home: Home, watch: Path | None) -> Source:
    if watch is not None:
        if not watch.is_dir():
            raise Invalid(f"{watch} is not a folder; --watch needs the folder with the manifests")
        return DirectorySource(watch)
    return GitSource(ClusterRepo.create(home.repo, hooks.command()))


@contextlib.asynccontextmanager
async def _following(
    source: Source, loop: Loop, parts: Parts, remote: RemoteTasks | None
) -> AsyncIterator[None]:
    """Let the loop read the source at each change, and keep the home and the memory in order."""

    async def follow() -> None:
        async for _ in source.changes():
            loop.look_at_source()

    async def tidy() -> None:
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            parts.store.doubt()
            await parts.care.look()

    tasks = [
        asyncio.create_task(follow(), name="follow the source"),
        asyncio.create_task(tidy(), name="tidy the home"),
        asyncio.create_task(keep_what_lasts(parts), name="keep what lasts"),
        asyncio.create_task(parts.figures.run(), name="measure"),
    ]
    if remote is not None:
        tasks.append(asyncio.create_task(remote.run(), name="follow the remote repository"))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


async def keep_what_lasts(parts: Parts) -> None:
    """Keep lasting objects out of Python's garbage collections: imported modules, and the objects of each revision.
    Nothing interrupts a collection, and with a thousand nodes a full one takes a fifth of a second."""
    gc.freeze()
    kept = ""
    while True:
        await parts.publisher.news.wait()
        revision = parts.last.desired.revision
        if parts.lease.looked and revision != kept:
            kept = revision
            gc.collect(1)
            gc.freeze()


@contextlib.asynccontextmanager
async def _asking(probe: GatewayProbe) -> AsyncIterator[None]:
    """Ask the gateway whether it is ready, once before the first pass, which would otherwise report that it is not
    known. The loop looks at later answers by itself."""
    await probe.look()
    task = asyncio.create_task(probe.run(), name="ask the gateway")
    try:
        yield
    finally:
        task.cancel()


def _end_on_signals(end: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
