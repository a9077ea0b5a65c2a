"""The controller's process: everything that it acts on or asks, built once.

The only module that knows every room but the gateway's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.controller.admin import Admin
from reconciler.controller.courier import Courier, Post
from reconciler.controller.intent import Intent
from reconciler.controller.lapses import Clocks, Lapses, elapsed, loop_time
from reconciler.controller.loop import Loop
from reconciler.controller.publish import Publisher
from reconciler.controller.reconcile import Parts
from reconciler.controller.routes_file import RoutesFile
from reconciler.errors import Deposed, Invalid, ReconcilerError
from reconciler.execution import Executor, Tools
from reconciler.execution.carrying import Open, nowhere
from reconciler.execution.handlers import nothing_to_let_go, nothing_to_stage, nothing_to_withdraw
from reconciler.execution.hub import Hub
from reconciler.execution.proof import ask_once
from reconciler.execution.runtimes import Builder
from reconciler.inventory import Collector, Probes, observe_gateway
from reconciler.inventory.collector import Hints
from reconciler.notify import Webhooks
from reconciler.resources import Access
from reconciler.source import hooks
from reconciler.source.git import ClusterRepo
from reconciler.source.sources import DirectorySource, GitSource, Source
from reconciler.state import GatewayObservation, MachineFacts, NodeName, Outcome
from reconciler.store import Store
from reconciler.transport.bundle import bundle_of, write_bundle
from reconciler.transport.link import AgentLink
from reconciler.transport.local import LocalNode, restart
from reconciler.transport.machines import Machine, Machines
from reconciler.transport.recipe import recipes, runtime_names
from reconciler.transport.wheelhouse import Wheelhouse
from reconciler.wire.footing import Footing
from reconciler.wire.log_lines import log_to
from reconciler.wire.node import NodeReport

from .home import Home
from .parent import LOG_FORMAT, end_with_parent

log = logging.getLogger("reconciler")
CONNECTING_MAX = 16
"""SSH connections that are made at a time."""
EXIT_DEPOSED = 75
"""Another controller has taken over, or may: what this one stood on is gone (``EX_TEMPFAIL`` in sysexits.h)."""


def run_controller(home: Path, watch: Path | None) -> int:
    """Run the controller until it is stopped; its exit status. ``watch``: a folder instead of the repo."""
    log_to(sys.stderr, LOG_FORMAT)
    end_with_parent()
    place = Home(home.absolute())
    try:
        place.check()
        place.create()
        with place.lock() as footing:
            asyncio.run(_control(place, watch, footing))
    except Deposed as error:
        log.error("%s", error)
        return EXIT_DEPOSED
    except (ReconcilerError, OSError) as error:
        log.error("%s", error)
        return 1
    return 0


async def _control(home: Home, watch: Path | None, footing: Footing) -> None:
    source = await _source(home, watch)
    store = Store(home.store)
    if store.is_new:
        for name in home.nodes_with_agents():
            store.keep_agent(name)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(store.close)
        machines = _machines(home)
        stack.push_async_callback(machines.close)
        loop, parts = compose(_surroundings(home, source, machines), store)
        parts.footing = (footing, Footing.at(str(home.store)))
        stack.push_async_callback(parts.collector.close)
        stack.push_async_callback(parts.executor.close)
        stack.push_async_callback(parts.courier.close)
        admin = Admin(parts, loop, source.describe())
        server = await admin.listen(home.socket)
        stack.push_async_callback(server.close)
        _end_on_signals(loop.end)
        await stack.enter_async_context(_following(source, loop))
        log.info("controller of %s runs, pid %d", home.root, os.getpid())
        await loop.run()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything outside of a controller that it acts on or asks, besides its store."""

    source: Source
    routes: RoutesFile
    dial: Callable[[NodeName], Awaitable[AgentLink]]
    probe: Callable[[AgentLink, NodeReport, bool], Awaitable[MachineFacts]]
    start_agent: Callable[[NodeName, int], Awaitable[None]]
    """With the fencing token; 0 where it is not known yet which one the node has."""
    ask: Callable[[NodeName, str], Awaitable[float]]
    """Has a rank give one completion, by its node and its socket there; the seconds that it took."""
    gateway: Callable[[], GatewayObservation | None]
    clock: Callable[[], float]
    entropy: Callable[[], str]
    awake: Callable[[], float] = loop_time
    elapsed: Callable[[], float] = loop_time
    """``lapses.Clocks``."""
    post: Post = Webhooks({}).post
    """Sends a message to a webhook; by default in an environment that holds no URL."""
    reboot: Callable[[NodeName], Awaitable[None]] = restart
    withdraw: Callable[[NodeName], Awaitable[None]] = nothing_to_withdraw
    stage: Callable[[NodeName, int], Awaitable[object]] = nothing_to_stage
    """Has the agent's file put on a node, where another agent runs."""
    agent_file: str = ""
    reach: Callable[[Mapping[NodeName, Access]], object] = dict
    """Told with every pass how each node is reached."""
    hub: Hub = field(default_factory=Hub)
    """Where weights are fetched from."""
    hints: Hints = field(default_factory=Hints)
    """To the probes."""
    stream: Open = nowhere
    let_go: Callable[[NodeName], Awaitable[None]] = nothing_to_let_go
    runtimes: Builder = field(default_factory=Builder)


def _machines(home: Home) -> Machines:
    bundle = write_bundle(home.root / "agents")
    gate = asyncio.Semaphore(CONNECTING_MAX)
    wheelhouse = Wheelhouse(home.root / "runtimes", recipes())

    def make(name: NodeName, access: Access) -> Machine:
        if access.ssh is not None:
            from reconciler.transport import ssh  # a cluster on one machine need not wait for it

            return ssh.SshNode(name, access, bundle_of(bundle, wheelhouse), gate, home.gateway_key)
        return LocalNode(
            name=name,
            directory=home.node(name),
            models=home.models,
            run_directory=home.run,
            runtime_python=Path(access.python or sys.executable),
            agent_python=Path(sys.executable),
            bundle=bundle,
        )

    return Machines(make, bundle.name)


def _surroundings(home: Home, source: Source, machines: Machines) -> Surroundings:
    async def ask(name: NodeName, socket: str) -> float:
        return await ask_once(lambda: machines.stream(name, socket))

    probes = Probes(time.time)
    return Surroundings(
        source=source,
        routes=RoutesFile(home.routes),
        dial=machines.dial,
        probe=probes,
        hints=Hints(probes.expire, probes.expect),
        start_agent=machines.start_agent,
        reboot=machines.reboot,
        withdraw=machines.withdraw,
        reach=machines.reach,
        stage=machines.stage,
        let_go=machines.let_go,
        agent_file=machines.agent_file,
        ask=ask,
        stream=machines.stream,
        gateway=lambda: observe_gateway(home.gateway),
        clock=time.time,
        entropy=lambda: secrets.token_hex(32),
        elapsed=elapsed,
        post=Webhooks(os.environ).post,
        hub=Hub(os.environ),
        runtimes=Builder(runtime_names(), machines.build_runtime, machines.prune_runtimes, time.time),
    )


def compose(around: Surroundings, store: Store) -> tuple[Loop, Parts]:
    """A controller that has not begun to run yet."""

    def token(name: NodeName) -> int:
        return store.token if name in parts.greeted else 0

    async def start_agent(name: NodeName) -> None:
        await around.start_agent(name, token(name))

    collector = Collector(
        around.dial, around.clock, lambda: loop.trigger(), around.probe, token, around.hints
    )
    tools = Tools(
        store,
        collector,
        start_agent,
        around.clock,
        around.ask,
        around.reboot,
        around.hub,
        around.stream,
        around.withdraw,
        lambda name: around.stage(name, token(name)),
        around.let_go,
        around.runtimes,
    )
    tools.runtimes.on_news = lambda: loop.trigger()

    def finished(outcome: Outcome) -> None:
        loop.finished(outcome)

    def deposed(error: Deposed) -> None:
        loop.deposed(error)

    publisher = Publisher(store, around.routes)
    seen = around.gateway()
    if seen is not None and seen.token >= store.token:
        # The store was lost: the gateway listens to nobody older.
        store.renew(above=seen.token)

    parts = Parts(
        intent=Intent(around.source, store, around.clock, lambda event: publisher.tell((event,))),
        collector=collector,
        executor=Executor(tools, finished, deposed),
        tools=tools,
        store=store,
        publisher=publisher,
        courier=Courier(store, around.post, around.clock, lambda: loop.trigger()),
        gateway=around.gateway,
        clock=around.clock,
        lapses=Lapses(Clocks(around.clock, around.awake, around.elapsed)),
        entropy=around.entropy,
        reach=around.reach,
        agent_file=around.agent_file,
    )
    loop = Loop(parts)
    return loop, parts


async def _source(home: Home, watch: Path | None) -> Source:
    if watch is not None:
        if not watch.is_dir():
            raise Invalid(f"{watch}: not a folder; --watch takes the folder that holds the manifests")
        return DirectorySource(watch)
    return GitSource(ClusterRepo.create(home.repo, hooks.command()))


@contextlib.asynccontextmanager
async def _following(source: Source, loop: Loop) -> AsyncIterator[None]:
    """Have the loop look whenever the source says that it is worth it."""

    async def follow() -> None:
        async for _ in source.changes():
            loop.look_at_source()

    task = asyncio.create_task(follow(), name="follow the source")
    try:
        yield
    finally:
        task.cancel()


def _end_on_signals(end: Callable[[], None]) -> None:
    """End in order on SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
