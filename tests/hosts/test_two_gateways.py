"""Two gateways on two hosts, with the same routes and keys: one dies under load, and the controller goes away."""

from __future__ import annotations

import asyncio
import copy
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from reconciler.controller.fronts import Fronts
from reconciler.remote.gateway_key import public_key, relay_line
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.nodes.pool import MachinePool
from reconciler.remote.runtime.agent_file import bundle_of, write_bundle
from reconciler.resources import Access, SshAccess
from reconciler.state import FrontObservation, GatewayObservation, NodeName
from reconciler.wire.generation import Backend, Machine, Route, Routes
from reconciler.wire.keys import AccessKey, SecretHash, hash_of
from tests.gateway.rank_double import RankDouble, eventually, story, told

from .network import Host, Network, network

pytestmark = [pytest.mark.timeout(200), pytest.mark.second_tier]

PORT = 8400
SECRET = "sk-both"
WORDS = 20
REQUESTS_EACH, CLIENTS = 12, 8
KEY = AccessKey("webui", (SecretHash(hash_of(SECRET)),))
OWN = GatewayObservation(1, "http://127.0.0.1:8400/v1")


class Gateways:
    """What keeps the two, and what it has seen of them."""

    def __init__(self, hosts: Network, pool: MachinePool, rank: Path) -> None:
        self.hosts = {host.name: host for host in hosts.hosts}
        self.key = hosts.person / "keys" / "gateway"
        self.remembered = hosts.person / "fronts.json"
        self.pool = pool
        self.fronts = Fronts(pool.front, self.remembered, self.key, lambda: None)
        first = hosts.hosts[0]
        machine = Machine(first.address, 22, first.user, " ".join(first.host_key.split()[:2]))
        self.route = Route("llama", (), 4096, 1, (Backend(0, 1, str(rank), first.name, machine),))
        self.sequence = 0

    def routes(self, *nodes: str) -> Routes:
        self.sequence += 1
        listen = f"0.0.0.0:{PORT}"
        return Routes(1, self.sequence, listen, 20.0, (self.route,), 1, auth="keys", keys=(KEY,), nodes=nodes)

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
async def gateways() -> AsyncIterator[Gateways]:
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
        rank = await RankDouble(run / "r-000000000000.sock", story(WORDS, pause=0.01)).start()
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


async def test_one_of_two_gateways_dies_under_load_and_clients_that_retry_lose_nothing() -> None:
    async with gateways() as made:
        both = [made.url("front-a"), made.url("front-b")]
        async with aiohttp.ClientSession() as session:

            async def client(number: int) -> list[tuple[str, int]]:
                mine = both if number % 2 else both[::-1]
                return [await answer(session, mine) for _ in range(REQUESTS_EACH)]

            asking = asyncio.gather(*map(client, range(CLIENTS)))
            await asyncio.sleep(0.8)
            before, killed_at = made.seen()["front-a"].pid, time.monotonic()
            assert before is not None
            os.kill(before, signal.SIGKILL)
            answers = [each for of_one in await asking for each in of_one]
            assert len(answers) == CLIENTS * REQUESTS_EACH
            assert {text for text, _ in answers} == {told(WORDS)}
            assert max(attempts for _, attempts in answers) > 1
            await eventually(lambda: made.serving(2) and made.seen()["front-a"].pid != before)
            print(f"started again after {time.monotonic() - killed_at:.1f} s")
            assert await answer(session, both[:1] * 2) == (told(WORDS), 1)


async def test_gateways_go_on_without_the_controller_and_the_next_one_finds_and_ends_them() -> None:
    async with gateways() as made, aiohttp.ClientSession() as session:
        async with made.fronts.following():
            pass  # that controller keeps nothing any more
        pids = {name: each.pid for name, each in made.seen().items()}
        for name in made.hosts:
            assert await answer(session, [made.url(name)] * 2) == (told(WORDS), 1)
        next_one = copy.copy(made)
        next_one.fronts = Fronts(made.pool.front, made.remembered, made.key, lambda: None)
        async with next_one.fronts.following():
            next_one.fronts.follow(next_one.routes("front-b"))
            await eventually(lambda: next_one.serving(1))
            assert next_one.seen()["front-b"].pid == pids["front-b"]
            await eventually(
                lambda: "front-a" not in next_one.seen() and not made.hosts["front-a"].pids("gateway-")
            )
            assert next_one.remembered.read_text() == '["front-b"]'
