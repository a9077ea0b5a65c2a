"""Two gateways on two hosts, which the controller's part keeps there, and one group on the first of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from reconciler.controller.fronts import Fronts
from reconciler.remote.gateway_key import public_key, relay_line
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.nodes.pool import MachinePool
from reconciler.remote.runtime.agent_file import bundle_of, write_bundle
from reconciler.resources import Access, SshAccess
from reconciler.state import FrontObservation, GatewayObservation, NodeName
from reconciler.wire.generation import Backend, Machine, Route, Routes
from reconciler.wire.keys import AccessKey, SecretHash, hash_of
from tests.gateway.rank_double import RankDouble, Script, eventually, story

from .network import Host, Network, network

PORT = 8400
SECRET = "sk-both"
WORDS = 20
KEY = AccessKey("webui", (SecretHash(hash_of(SECRET)),))
STORY = story(WORDS, pause=0.01)
OWN = GatewayObservation(1, "http://127.0.0.1:8400/v1")


class Gateways:
    """What keeps the two, and what it has seen of them."""

    def __init__(self, hosts: Network, pool: MachinePool, rank: Path) -> None:
        self.network = hosts
        self.hosts = {host.name: host for host in hosts.hosts}
        self.key = hosts.person / "keys" / "gateway"
        self.remembered = hosts.person / "fronts.json"
        self.pool = pool
        self.fronts = Fronts(pool.front, self.remembered, self.key, lambda: None)
        first = hosts.hosts[0]
        machine = Machine(first.address, 22, first.user, " ".join(first.host_key.split()[:2]))
        self.route = Route("llama", (), 4096, 1, (Backend(0, 1, str(rank), first.name, machine),))
        self.sequence = 0
        self.keys: tuple[AccessKey, ...] = (KEY,)

    def routes(self, *nodes: str, **more: Any) -> Routes:
        self.sequence += 1
        listen = f"0.0.0.0:{PORT}"
        made = Routes(
            1, self.sequence, listen, 20.0, (self.route,), 1, auth="keys", keys=self.keys, nodes=nodes
        )
        return replace(made, **more)

    def seen(self) -> dict[str, FrontObservation]:
        found = self.fronts.beside(OWN)
        assert found is not None
        return {each.node: each for each in found.others}

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
        pool.reach({NodeName(host.name): access(host) for host in hosts.hosts})
        first = hosts.hosts[0]
        run = first.root / "run"
        run.mkdir(parents=True)
        agent = write_bundle(first.root / "agents")
        line = relay_line(sys.executable, str(agent), str(run), public_key(key))
        with (first.home / ".ssh" / "authorized_keys").open("a") as authorized:
            authorized.write(line + "\n")
        rank = await RankDouble(run / "r-000000000000.sock", script).start()
        made = Gateways(hosts, pool, rank.path)
        try:
            async with made.fronts.following():
                made.fronts.follow(made.routes("front-a", "front-b"))
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
