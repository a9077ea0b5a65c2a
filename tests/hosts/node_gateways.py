"""Two gateways on two hosts, kept there by the controller's plan for them, and one group on the first of them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import aiohttp

from reconciler.execution import Executor, Tools
from reconciler.execution.gateways import Gateways as Kept
from reconciler.inventory import GatewaysOnNodes
from reconciler.planning import plan
from reconciler.remote.gateway_key import public_key, relay_line
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.nodes.pool import MachinePool
from reconciler.remote.runtime.agent_file import bundle_of, write_bundle
from reconciler.resources import Access, Node, SshAccess
from reconciler.state import (
    Contact,
    Desired,
    GatewayObservation,
    Memory,
    NodeGatewayObservation,
    NodeName,
    NodeObservation,
    Observed,
    Outcome,
)
from reconciler.state.node_steps import GatewayStep
from reconciler.wire.generation import Backend, Machine, Route, Routes
from reconciler.wire.keys import AccessKey, SecretHash, hash_of
from tests.gateway.rank_double import RankDouble, Script, eventually, story
from tests.machines import LocalMachines
from tests.worlds import gateway, manifest

from .network import Host, Network, network

PORT = 8400
SECRET = "sk-both"
WORDS = 20
KEY = AccessKey("webui", (SecretHash(hash_of(SECRET)),))
STORY = story(WORDS, pause=0.01)
OWN = GatewayObservation(1, "http://127.0.0.1:8400/v1")


class Loop:
    """The part of a controller that keeps gateways: passes that plan for them, and take the steps."""

    def __init__(self, pool: MachinePool, remembered: Path, key: Path, nodes: dict[NodeName, Node]) -> None:
        self._nodes = nodes
        self._wake = asyncio.Event()
        self._named: tuple[str, ...] = ()
        self.gateways = Kept(pool.gateway, remembered, key)
        self.watch = GatewaysOnNodes(self.gateways.on, self._wake.set)
        self.gateways.watcher, self.gateways.on_news = self.watch, self._news
        tools = Tools(cast(Any, None), cast(Any, None), LocalMachines(), time.time, gateways=self.gateways)
        self.outcomes: list[Outcome] = []
        self.executor = Executor(tools, self._finished, lambda error: None)

    def follow(self, routes: Routes) -> None:
        """These are the routes in force from now on."""
        self._named = routes.nodes
        self.gateways.follow(routes)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Make passes until the end, which leaves all gateways as they are."""
        passes = asyncio.create_task(self._run())
        try:
            yield
        finally:
            passes.cancel()
            await self.executor.close()
            await self.watch.close()

    def _news(self) -> None:
        self.watch.watch(self.gateways.names)
        self._wake.set()

    def _finished(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            memory = Memory(**vars(self.executor.volatile), token=1)
            wanted = gateway(auth={"mode": "keys"}, nodes=list(self._named))
            seen = {name: NodeObservation(name, Contact.REACHED, 0.0) for name in self._nodes}
            decided = plan(
                Desired("r1", nodes=self._nodes, gateway=wanted),
                Observed(seen, OWN, self.watch.seen),
                memory,
                time.time(),
                "",
            )
            self.executor.launch(tuple(step for step in decided.steps if isinstance(step, GatewayStep)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await self._wake.wait()
                    await asyncio.sleep(0.01)


class Gateways:
    """What keeps the two, and what it has seen of them."""

    def __init__(
        self, hosts: Network, pool: MachinePool, rank: Path, accesses: dict[NodeName, Access]
    ) -> None:
        self.network = hosts
        self.hosts = {host.name: host for host in hosts.hosts}
        self.key = hosts.person / "keys" / "gateway"
        self.remembered = hosts.person / "fronts.json"
        self.pool = pool
        self.nodes = {
            name: manifest(Node, name, ssh=access.ssh.model_dump(by_alias=True), python=access.python)
            for name, access in accesses.items()
            if access.ssh is not None
        }
        self.loop = self.next_loop()
        first = hosts.hosts[0]
        machine = Machine(first.address, 22, first.user, " ".join(first.host_key.split()[:2]))
        self.route = Route("llama", (), 4096, 1, (Backend(0, 1, str(rank), first.name, machine),))
        self.sequence = 0
        self.keys: tuple[AccessKey, ...] = (KEY,)

    def next_loop(self) -> Loop:
        return Loop(self.pool, self.remembered, self.key, self.nodes)

    def routes(self, *nodes: str, **more: Any) -> Routes:
        self.sequence += 1
        listen = f"0.0.0.0:{PORT}"
        made = Routes(
            1, self.sequence, listen, 20.0, (self.route,), 1, auth="keys", keys=self.keys, nodes=nodes
        )
        return replace(made, **more)

    def seen(self) -> dict[str, NodeGatewayObservation]:
        return {each.node: each for each in self.loop.watch.seen.values()}

    def serving(self, count: int) -> bool:
        good = [each for each in self.seen().values() if not each.problem and each.sequence == self.sequence]
        return len(good) == count

    def url(self, name: str) -> str:
        return f"http://{self.hosts[name].address}:{PORT}/v1/completions"


@asynccontextmanager
async def gateways(script: Script = STORY) -> AsyncIterator[Gateways]:
    """Two hosts, one group on the first of them, and a gateway on each."""
    with network("front-a", "front-b") as hosts:
        bundle, gate = bundle_of(write_bundle(hosts.folder / "agents")), asyncio.Semaphore(4)
        key = hosts.person / "keys" / "gateway"

        def access(host: Host) -> Access:
            ssh = SshAccess.model_validate(
                {
                    "host": host.address,
                    "user": host.user,
                    "hostKey": host.host_key,
                    "identityFile": str(host.key),
                }
            )
            return Access(ssh=ssh, python=sys.executable)

        pool = MachinePool(lambda name, how: SshNode(name, how, bundle, gate, key))
        accesses = {NodeName(host.name): access(host) for host in hosts.hosts}
        pool.reach(accesses)
        first = hosts.hosts[0]
        run = first.root / "run"
        run.mkdir(parents=True)
        agent = write_bundle(first.root / "agents")
        line = relay_line(sys.executable, str(agent), str(run), public_key(key))
        with (first.home / ".ssh" / "authorized_keys").open("a") as authorized:
            authorized.write(line + "\n")
        rank = await RankDouble(run / "r-000000000000.sock", script).start()
        made = Gateways(hosts, pool, rank.path, accesses)
        try:
            async with made.loop.following():
                made.loop.follow(made.routes("front-a", "front-b"))
                await eventually(lambda: made.serving(2))
                yield made
        finally:
            await pool.close()
            await rank.stop()


async def answer(session: aiohttp.ClientSession, urls: list[str]) -> tuple[str, int]:
    """The text of one completion, from whichever gateway gives it, and how often it was asked for."""
    body = {"model": "llama", "prompt": "a", "max_tokens": 64}
    for attempt in range(100):
        try:
            async with session.post(
                urls[attempt % 2], json=body, headers={"x-api-key": SECRET}, timeout=aiohttp.ClientTimeout(20)
            ) as got:
                if got.status == 200:
                    return (await got.json())["choices"][0]["text"], attempt + 1
        except (aiohttp.ClientError, TimeoutError):
            pass
        await asyncio.sleep(0.05)
    raise TimeoutError("no gateway answered")
