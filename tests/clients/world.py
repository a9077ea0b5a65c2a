"""A cluster of two real ranks that load the scripted weights."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.certificates import self_signed
from tests.e2e.cluster import MODEL, ROOT, Cluster, cluster, deployment, node

from .documents import KEY
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


@dataclass(frozen=True)
class Door:
    """How clients reach the endpoint."""

    base: str
    """Without ``/v1``."""
    key: str = KEY
    authority: Path | None = None
    """File with the authority that its certificate is from; None where it speaks plain HTTP."""

    def environment(self) -> dict[str, str]:
        """Return the variables by which Python's libraries and Node trust the authority."""
        names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS") if self.authority else ()
        return dict.fromkeys(names, str(self.authority))

    def failed(self) -> float:
        """Return the requests that were not answered, as with 503."""
        asked = urllib.request.Request(f"{self.base}/metrics", headers={"x-api-key": self.key})
        trusting = ssl.create_default_context(cafile=str(self.authority)) if self.authority else None
        with urllib.request.urlopen(asked, timeout=30, context=trusting) as page:
            families = list(text_string_to_metric_families(page.read().decode()))
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "vllm:request_success_total" and sample.labels["finished_reason"] == "error"
        )


def sealed(made: Cluster, folder: Path) -> Door:
    """Have the gateway ask for keys and speak HTTPS, and return how it is reached then."""
    file = self_signed(folder)
    manifest = folder / "manifests" / "gateway.yaml"
    keys = manifest.read_text().replace("mode: none", "mode: keys")
    manifest.write_text(f"{keys}  tls: {{certificate: {file}, key: {file}}}\n")
    secret = made.ask("key", "create", "clients", "--metrics").strip()
    made.run("apply", "-f", str(manifest))
    made.wait_settled()
    made.wait("the endpoint to speak HTTPS", lambda: base(made).startswith("https://"))
    return Door(base(made), secret, file)


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


def continued(made: Cluster) -> float:
    """Return the answers that went on with another group."""
    return made.metrics().get("reconciler_requests_continued_total", 0.0)
