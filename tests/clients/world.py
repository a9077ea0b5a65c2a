"""A cluster of two real ranks that load the scripted weights."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.cluster import MODEL, ROOT, Cluster, cluster, deployment, node

from .scripted.weights import CONTEXT, write
from .scripts import Script

NAME = "tiny"
SHORT_HOLD = "1s"
"""While a group is formed, requests then get 503 with ``retry-after``, rather than being held."""


@contextmanager
def scripted(folder: Path, scripts: Mapping[str, Script]) -> Iterator[Cluster]:
    """Start it, with the manifests and the weights in ``folder``; nothing runs after the block."""
    write(folder / "models" / NAME, scripts)
    manifests = folder / "manifests"
    manifests.mkdir()
    (manifests / "nodes.yaml").write_text(node("node-a") + "---\n" + node("node-b"))
    (manifests / "model.yaml").write_text(MODEL + "  trustRemoteCode: true\n")
    (manifests / "tiny.yaml").write_text(deployment(NAME, nodes=2, context=CONTEXT))
    shutil.copy(ROOT / "manifests" / "gateway.yaml", manifests)
    with cluster() as made:
        made.start("-f", str(manifests), "--models", str(folder / "models"), "--any-port")
        made.wait_settled()
        yield made


def base(made: Cluster) -> str:
    """Return the endpoint without ``/v1``."""
    return made.endpoint().removesuffix("/v1")


def kill_rank(made: Cluster) -> None:
    """Kill the last rank of the group."""
    os.kill(max(made.ranks(), key=lambda rank: int(rank["rank"]))["pid"], signal.SIGKILL)


def hold_shortly(made: Cluster, folder: Path) -> None:
    """Let the gateway hold requests for a moment only."""
    manifest = folder / "manifests" / "gateway.yaml"
    manifest.write_text(manifest.read_text().replace("spec:\n", f"spec:\n  hold: {SHORT_HOLD}\n"))
    made.run("apply", "-f", str(manifest))
    made.wait_settled()


def generated(made: Cluster) -> float:
    """Return the tokens that were generated so far."""
    return made.metrics().get("vllm:generation_tokens_total", 0.0)


def continued(made: Cluster) -> float:
    """Return the answers that went on with another group."""
    return made.metrics().get("reconciler_requests_continued_total", 0.0)
