"""Clusters of emulated Macs for end-to-end tests: an example as it is shipped, from the command line alone, and a
comparison of what was there before with what is there afterwards."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.e2e.cluster import ROOT, Cluster, cluster
from tests.hosts.network import INTERFACE, NETWORKS
from tests.ports import free_port

EXAMPLES = ROOT / "examples"
WIDTH = 100
FORMED_SECONDS, HEALED_SECONDS = 300.0, 300.0
GROWTH = "  growth: {idle: 1s, groupAge: 3s, nodeUptime: 3s}\n"
"""So that what could be better becomes it at once: in the examples it takes ten minutes."""


CONTEXT = 512
"""A new group over RDMA reads a prompt of this length twice, which takes a CPU a moment."""

Change = Callable[[str], str]
"""Of the text of a manifest."""


def grows_at_once(text: str) -> str:
    text = re.sub(r"^  placement:\n", rf"{GROWTH}\g<0>", text, flags=re.MULTILINE)
    return re.sub(r"context: \d+", f"context: {CONTEXT}", text)


def manifests(example: str, folder: Path, change: Change) -> Path:
    """A copy of an example, with a port that is free, and changed."""
    folder.mkdir(parents=True)
    for path in (EXAMPLES / example).glob("*.yaml"):
        text = path.read_text().replace("127.0.0.1:8400", f"127.0.0.1:{free_port()}")
        (folder / path.name).write_text(change(text))
    return folder


def around() -> dict[str, object]:
    """What of this machine nobody may change: its network interfaces, and who is known by SSH.

    Networks of tests/hosts come and go meanwhile, and do not count.
    """
    known = Path.home() / ".ssh" / "known_hosts"
    interfaces = [path.name for path in Path("/sys/class/net").iterdir()]
    routes = Path("/proc/net/route").read_text().splitlines()
    return {
        "interfaces": sorted(name for name in interfaces if not name.startswith(INTERFACE)),
        "addresses": sorted(each for each in _addresses() if not each.startswith(NETWORKS)),
        "routes": [line for line in routes if not line.startswith(INTERFACE)],
        "known hosts": known.read_bytes() if known.exists() else None,
    }


def _addresses() -> set[str]:
    """Of this machine, by the kernel's table of routes: each stands in the line before the one that says so."""
    lines = Path("/proc/net/fib_trie").read_text().splitlines()
    return {before.split()[-1] for before, line in pairwise(lines) if "host LOCAL" in line}


@contextmanager
def unpacked(made: Cluster, *how: str) -> Iterator[Path]:
    """The folder of the manifests of emulated Macs (``how``: words of `sandbox up`), for a cluster whose controller believes
    that it runs on a Mac too. Both have ended after the block."""
    made.environment["PYTHONPATH"] = str(made.home / "sandbox" / "controller")
    made.run("sandbox", "up", *how, "--detach")
    try:
        yield made.home / "sandbox" / "cluster"
    finally:
        if made.up is not None and made.up.poll() is None:
            made.stop()
        made.run("sandbox", "down")


@contextmanager
def macs(
    folder: Path, example: str, *how: str, change: Change = grows_at_once, console: bool = False
) -> Iterator[Cluster]:
    """Emulated Macs for an example (``how``: further words of `sandbox up`), and a cluster that is started on them, its
    manifests changed; nothing is left of either."""
    before = around()
    with cluster() as made:
        for name in ("HOME", "TMPDIR"):
            made.environment[name] = str(folder / name.lower())
            (folder / name.lower()).mkdir()
        copied = manifests(example, folder / example, change)
        with unpacked(made, *how, "-f", str(copied)) as written:
            made.start("-f", str(written), "--any-port", console=console)
            made.wait("a controller", lambda: made.json("get", "nodes")["items"])
            yield made
        made.wait_ended()
        assert [path for name in ("home", "tmpdir") for path in (folder / name).rglob("*")] == []
    assert around() == before


def groups(made: Cluster, deployment: str) -> list[tuple[int, str]]:
    """How many nodes serve a deployment over which transport, for each of its groups; none while one does not."""
    status = made.json("describe", "modeldeployment", deployment)["status"]
    if status["readyReplicas"] != len(status["groups"]):
        return []
    return [(len(group["nodes"]), group["transport"].split()[0]) for group in status["groups"]]


def served(
    made: Cluster, deployment: str, nodes: int | range, *transports: str, seconds: float = HEALED_SECONDS
) -> float:
    """Wait until it is served by so many nodes over one of these transports; how long that took, in seconds."""
    sizes = (nodes,) if isinstance(nodes, int) else nodes
    wished = [[(size, transport)] for size in sizes for transport in transports]
    what = f"{deployment} on {' or '.join(map(str, sizes))} nodes over {' or '.join(transports)}"
    took = made.wait(what, lambda: groups(made, deployment) in wished, seconds)
    print(f"{what}: after {took:.1f} s")
    return took


def answered(made: Cluster, deployment: str, tokens: int = 200) -> str:
    """By the endpoint, in words: what it is likeliest to say, and no more than so many tokens."""
    body: dict[str, Any] = {
        "model": deployment,
        "messages": [{"role": "user", "content": "What is an epoch?"}],
        "temperature": 0,
        "max_tokens": tokens,
    }
    request = urllib.request.Request(
        f"{made.endpoint()}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=HEALED_SECONDS) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def tables(made: Cluster) -> list[str]:
    """`get nodes,fabric,deployments`, as it is read on a terminal of 100 columns."""
    made.environment["COLUMNS"] = str(WIDTH)
    try:
        shown = made.run("get", "nodes,fabric,deployments").stdout.splitlines()
    finally:
        del made.environment["COLUMNS"]
    assert max(map(len, shown)) <= WIDTH
    return shown


def incidents(made: Cluster) -> list[dict[str, Any]]:
    return list(made.json("incidents")["items"])


def epoch(made: Cluster, deployment: str) -> int:
    """Of its only group, the newest."""
    (group,) = made.json("describe", "modeldeployment", deployment)["status"]["groups"]
    return int(group["epoch"])


def sandbox(made: Cluster, *words: str) -> str:
    return made.run("sandbox", *words).stdout
