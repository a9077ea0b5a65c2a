"""A cluster of two real ranks that load the scripted weights."""

from __future__ import annotations

import os
import shutil
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.cluster import MODEL, ROOT, Cluster, cluster, deployment, node

from .scripted.weights import CONTEXT, write
from .scripts import Script

NAME = "tiny"
SHORT_HOLD = "1.5s"
"""Requests then soon get 503, with 2 in ``retry-after``. Libraries that try again twice have seven seconds."""


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


def kill_rank(made: Cluster, rank: int) -> None:
    """Kill a rank of the group."""
    (pid,) = [one["pid"] for one in made.ranks() if one["rank"] == rank]
    os.kill(pid, signal.SIGKILL)


def hold_shortly(made: Cluster, folder: Path) -> None:
    """Let the gateway hold requests for a moment only."""
    manifest = folder / "manifests" / "gateway.yaml"
    manifest.write_text(manifest.read_text().replace("spec:\n", f"spec:\n  hold: {SHORT_HOLD}\n"))
    made.run("apply", "-f", str(manifest))
    made.wait_settled()


def take_away(made: Cluster) -> None:
    """Leave the model without a group, but wanted: one of its two nodes is drained."""
    made.ask("drain", "node-b", "--force", "--timeout=60s")


def give_back(made: Cluster) -> None:
    """Let a group be formed again, without any back-off: none has failed."""
    made.ask("uncordon", "node-b")


def generated(made: Cluster) -> float:
    """Return the tokens that were generated so far."""
    return made.metrics().get("vllm:generation_tokens_total", 0.0)


def failed(made: Cluster) -> float:
    """Return the requests that were not answered, as with 503."""
    url = f"{base(made)}/metrics"
    with urllib.request.urlopen(url, timeout=30) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "vllm:request_success_total" and sample.labels["finished_reason"] == "error"
    )


def continued(made: Cluster) -> float:
    """Return the answers that went on with another group."""
    return made.metrics().get("reconciler_requests_continued_total", 0.0)
