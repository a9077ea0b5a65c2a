"""Three hosts, each with its own SSH server, and a cluster over them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster import MODEL, ROOT, Cluster

from .model import write_model
from .network import Host, Network, network

NAMES = ("host-a", "host-b", "host-c")

BESIDE = f"""\
  python: {sys.executable}
"""
"""What `node add` does not know."""
DEPLOYMENT = """apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata:
  name: tiny
spec:
  model: tiny
  parallelism: {strategy: tensor, nodes: {min: 2, max: 3}}
  serving: {context: 1024, maxBatch: 4}
  growth: {idle: 2s, groupAge: 20s, nodeUptime: 5s}
"""
"""It grows back sooner than by default, so that nobody has to wait ten minutes to see it."""
GATEWAY = """apiVersion: reconciler/v1alpha1
kind: Gateway
metadata:
  name: main
spec:
  listen: 127.0.0.1:8400
  auth: {mode: none}
  hold: 5m
"""


HERE = f"{Path(__file__).parent}/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.needs("root", "namespaces", "ip", "nft", "sshd"))


@pytest.fixture(scope="module")
def hosts() -> Iterator[Network]:
    with network(*NAMES) as made:
        yield made


@contextmanager
def over(
    hosts: Network, texts: tuple[str, ...], gateway: str = GATEWAY, **environment: str
) -> Iterator[Cluster]:
    """A cluster over the hosts, up and settled, run from a copy of the package that a test may change."""
    folder = hosts.folder / "cluster"
    shutil.copytree(ROOT / "reconciler", folder / "source" / "reconciler")
    manifests = folder / "manifests"
    manifests.mkdir()
    (manifests / "tiny.yaml").write_text("---\n".join((*texts, gateway)))
    made = Cluster(
        folder / "home",
        folder / "source",
        {"HOME": str(hosts.person), "SSH_AUTH_SOCK": "", **environment},
    )
    for host in hosts.hosts:
        words = (f"{host.user}@{host.address}", "--name", host.name, "--yes", "-o", "yaml")
        text = made.run("node", "add", *words).stdout
        assert host.host_key.split()[1] in text
        (manifests / f"{host.name}.yaml").write_text(text + BESIDE)
    _bootstrap(made, manifests, hosts.hosts[0])
    try:
        made.start("-f", str(manifests), "--any-port")
        made.wait_settled()
        yield made
        assert made.stop() == 0
        made.wait("all to end", lambda: not any(host.agents() + host.ranks() for host in hosts.hosts))
    finally:
        made.kill_everything()


def _bootstrap(cluster: Cluster, manifests: Path, host: Host) -> None:
    """Where there is no systemd all that can be done is to put the files there, and a second time nothing is done."""
    cluster.run("apply", "-f", str(manifests))
    words = ("node", "bootstrap", host.name, "--yes")
    assert cluster.run(*words).stdout.endswith(f"node/{host.name} bootstrapped\n")
    (bundle,) = host.root.glob("agents/agent-*.pyz")
    assert "$ " in cluster.run("node", "bootstrap", "host-b", "--dry-run").stdout
    last = cluster.run(*words).stdout.splitlines()
    assert "a plain process" in last[-2]
    assert last[-1] == f"node/{host.name} unchanged: all is in place"
    assert host.agents() == [], "the controller starts them"
    assert bundle.exists()


@pytest.fixture(scope="module")
def cluster(hosts: Network) -> Iterator[Cluster]:
    for host in hosts.hosts:
        write_model(host.root / "models" / "tiny")
    with over(hosts, (MODEL, DEPLOYMENT)) as made:
        yield made
