"""The two sides that are measured beside each other: our whole cluster, and ``mlx_lm.server``."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import MODEL, ROOT, Cluster, cluster, deployment, node
from tests.processes import standing_still

from .streams import WEIGHTS

READY_SECONDS = 120.0
CONTEXT = 2048
BATCH = 32


@dataclass
class Peer:
    """``mlx_lm.server`` on the same weights; rank 0 answers."""

    url: str
    pids: tuple[int, ...]
    model: str


@dataclass
class Ours:
    """`reconciler up` with one replica: controller, gateway, an agent and a shim a rank, and the ranks."""

    made: Cluster
    url: str
    model: str = "tiny"

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(self.made.processes())


@contextmanager
def ours(ranks: int, context: int = CONTEXT, batch: int = BATCH) -> Iterator[Ours]:
    """Our cluster, settled."""
    with tempfile.TemporaryDirectory() as folder, _weights(context) as weights, cluster() as made:
        nodes = [node(f"node-{number}") for number in range(ranks)]
        gateway = (ROOT / "manifests" / "gateway.yaml").read_text()
        text = "---\n".join([*nodes, MODEL, deployment("tiny", ranks, context=context, batch=batch), gateway])
        (Path(folder) / "cluster.yaml").write_text(text)
        made.start("-f", folder, "--models", str(weights.parent), "--any-port")
        made.wait_settled()
        yield Ours(made, made.endpoint())


@contextmanager
def _weights(context: int) -> Iterator[Path]:
    """The tiny model, in a folder ``tiny``, made for at least so many tokens."""
    config = json.loads((WEIGHTS / "config.json").read_text())
    if config["max_position_embeddings"] >= context:
        yield WEIGHTS
        return
    with tempfile.TemporaryDirectory() as folder:
        longer = Path(shutil.copytree(WEIGHTS, Path(folder) / WEIGHTS.name))
        (longer / "config.json").write_text(json.dumps({**config, "max_position_embeddings": context}))
        yield longer


@contextmanager
def peer(ranks: int, context: int = CONTEXT) -> Iterator[Peer]:
    """The peer's ranks, started by hand: its launcher, ``mlx.launch``, would use up a core by itself.

    What ``mlx.launch --backend ring`` gives its ranks is in mlx's ``_distributed_utils/launch.py``: a file with
    an address list a rank, and the rank's number.
    """
    with tempfile.TemporaryDirectory() as folder, _weights(context) as weights, ExitStack() as stack:
        port, *ports = _free_ports(ranks + 1)
        hosts = Path(folder) / "hosts.json"
        hosts.write_text(json.dumps([[f"127.0.0.1:{number}"] for number in ports]))
        command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(weights)]
        command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "ERROR"]
        log = stack.enter_context((Path(folder) / "log").open("wb"))
        started = []
        for rank in range(ranks):
            ring = {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(hosts)} if ranks > 1 else {}
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "HF_HUB_OFFLINE": "1", **ring},
            )
            stack.callback(_end, process)
            started.append(process)
        url = f"http://127.0.0.1:{port}"
        _wait_healthy(url, started, Path(log.name))
        yield Peer(f"{url}/v1", tuple(process.pid for process in started), str(weights))


@contextmanager
def both(ranks: int, context: int = CONTEXT, batch: int = BATCH) -> Iterator[tuple[Ours, Peer]]:
    """Both sides at once. The peer's ranks never rest: ``undisturbed`` holds them still for ours."""
    with ours(ranks, context, batch) as mine, peer(ranks, context) as other:
        yield mine, other


@contextmanager
def undisturbed(other: Peer) -> Iterator[None]:
    """The peer's idle ranks poll one another, which takes from ours what they need: they are stopped."""
    with standing_still(*other.pids):
        yield


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(10)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _wait_healthy(url: str, processes: list[subprocess.Popen[bytes]], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if any(process.poll() is not None for process in processes):
            break
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"mlx_lm.server did not start:\n{log.read_text(errors='replace')[-2000:]}")
