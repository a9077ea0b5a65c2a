"""From the death of a rank's process to its event in the store.

Shims, agents and the controller are processes as ever, over nodes without weights: the ranks are small ones, which
their agents are asked to start here, and no group is formed in place of one that has died.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from reconciler.bootstrap import Home
from reconciler.cli.core.client import ask
from reconciler.errors import Unreachable
from reconciler.planning.context.tcp_ports import PORT_FIRST
from reconciler.planning.context.workload import hash_of
from reconciler.remote.nodes.local import LocalNode
from reconciler.remote.runtime.agent_file import write_bundle
from reconciler.source.yaml.documents import load
from reconciler.state import (
    Attempt,
    Cause,
    DeploymentName,
    Desired,
    GroupRecord,
    NodeName,
    ReplicaId,
)
from reconciler.store import Store
from reconciler.wire.admin import Get, Stop
from reconciler.wire.launch import LaunchSpec, Phase, RankConfig
from reconciler.wire.node import Done, StartRank
from reconciler.wire.paths import rank_socket
from tests.bench.figures import Figure, alone
from tests.e2e.cluster import MODEL, ROOT, deployment, node

NODES = (NodeName("node-a"), NodeName("node-b"))
KILLS = 50
REST_SECONDS = (0.2, 0.6)
"""Between two kills, drawn anew each time: nothing is to hide between the beats of some clock."""
WAIT_SECONDS = 60.0
POLL_SECONDS = 0.001
RANK = """
import os, sys
os.write(int(os.environ["RECONCILER_PROGRESS_FD"]), b'{"phase": "ready"}' + bytes([10]))
sys.stdin.read()
"""


def measure(quick: bool) -> Iterator[Figure]:
    """One group after the other loses its only rank to SIGKILL; the two nodes take turns."""
    count = 3 if quick else KILLS
    with _cluster(count) as (home, pids):
        seconds = [_killed(home, name, pid) for name, pid in pids.items()]
    yield alone("rank killed -> event: p50", "s", seconds, "< 0.25 s")
    last = statistics.quantiles(seconds, n=100, method="inclusive")[98]
    yield Figure(f"rank killed -> event: p99 of {count}", last, None, None, 0.0, "s", "< 0.25 s")


@contextmanager
def _cluster(count: int) -> Iterator[tuple[Home, dict[str, int]]]:
    """A controller that knows ``count`` groups of one rank each; the pid of the rank of each deployment."""
    with tempfile.TemporaryDirectory(prefix="r-") as folder:
        home, manifests = Home(Path(folder) / "h"), Path(folder) / "m"
        home.create()
        manifests.mkdir()
        names = [f"tiny-{number}" for number in range(count)]
        text = "---\n".join([*map(node, NODES), MODEL, *(deployment(name, 1) for name in names)])
        (manifests / "cluster.yaml").write_text(text)
        desired = Desired.of("r1", [document.manifest for document in load({"cluster.yaml": text.encode()})])
        groups = [_record(desired, name, number) for number, name in enumerate(names)]
        asyncio.run(_start_ranks(home, groups))
        command = [sys.executable, "-m", "reconciler", "--home", str(home.root)]
        process = subprocess.Popen([*command, "controller", "--watch", str(manifests)], cwd=ROOT)
        try:
            yield home, _ready(home, count)
        finally:
            with suppress(Unreachable):
                ask(home.socket, Stop())
            process.wait(WAIT_SECONDS)


def _record(desired: Desired, name: str, number: int) -> GroupRecord:
    wanted = desired.deployments[DeploymentName(name)]
    wish = hash_of(wanted.spec, desired.models[wanted.spec.model])
    replica = ReplicaId(DeploymentName(name), 0)
    members = (NODES[number % len(NODES)],)
    return GroupRecord(
        replica, 1, members, PORT_FIRST + 2 * number, "s", wish, time.time(), 1, time.time(), model="tiny"
    )


async def _start_ranks(home: Home, groups: Sequence[GroupRecord]) -> None:
    """As a controller would have done that is not there any more."""
    store = Store(home.store)
    bundle, python = write_bundle(home.root / "agents"), Path(sys.executable)
    for name in NODES:
        store.keep_agent(name)
        local = LocalNode(name, home.node(name), home.models, home.run, python, python, bundle)
        await local.start_agent()
        link = await local.dial()
        for group in (group for group in groups if group.members == (name,)):
            why = Attempt(1, time.time(), Cause.NEW_REPLICA.value, None, "it has no group yet", "")
            store.allocate(group, why)
            store.prove(group.replica, 1, time.time())
            done = await link.request(StartRank(store.token, _spec(home, group)), timeout=WAIT_SECONDS)
            assert isinstance(done, Done)
        await link.close()
    store.close()


def _spec(home: Home, group: GroupRecord) -> LaunchSpec:
    id = group.rank_id(0)
    config = RankConfig(
        id=id, size=1, model_path="tiny", strategy="tensor", backend="ring",
        addresses=(f"127.0.0.1:{group.port}",), control="", secret="s", socket=rank_socket(str(home.run), id),
        context=128, batch_max=1, rendezvous_seconds=1.0,
    )  # fmt: skip
    argv = (sys.executable, "-I", "-S", "-c", RANK)
    return LaunchSpec(id, argv, {}, config, group.fingerprint, memory_bytes=1)


def _ready(home: Home, count: int) -> dict[str, int]:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        with suppress(Unreachable):
            rows = ask(home.socket, Get("Rank"))["items"]
            if len(rows) == count and all(row["phase"] == Phase.READY for row in rows):
                return {row["deployment"]: row["pid"] or 0 for row in rows}
        time.sleep(0.1)
    raise RuntimeError(f"the controller did not adopt {count} groups within {WAIT_SECONDS:.0f} s")


def _killed(home: Home, name: str, pid: int) -> float:
    """Seconds from the signal until another process can read the event."""
    time.sleep(random.uniform(*REST_SECONDS))
    query = "SELECT 1 FROM events WHERE kind = 'ModelDeployment' AND name = ? AND reason = 'RankExited'"
    with closing(sqlite3.connect(f"{home.store.as_uri()}?mode=ro", uri=True)) as db:
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        while db.execute(query, (name,)).fetchone() is None:
            if time.monotonic() - killed > WAIT_SECONDS:
                raise RuntimeError(f"the end of process {pid} was not seen")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - killed
