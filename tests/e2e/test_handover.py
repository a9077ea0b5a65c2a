"""Another version takes over under clients that ask all the time, and the first one is put back: none of them notices.

Both are this tree, run by different interpreters, as each version has one of its own. The test stands for `reconciler upgrade`: it ends `up` while a version is
being switched, and starts the other one's.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.services.lock import holder
from reconciler.services.versions import Versions
from tests.ports import free_port
from tests.previous import Installation

from .asking import Asking
from .cluster import ROOT, Cluster, cluster, gateway_with_keys

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

CLIENTS = (4, 40, 8, 200, 16, 400)
"""Tokens of their answers: some are over at once, some outlast every switch."""


def start(made: Cluster, python: Path, manifests: Path) -> None:
    """`reconciler up` of a version, until there is nothing left to do."""
    command = [
        str(python),
        "-m",
        "reconciler",
        "--home",
        str(made.home),
        "up",
        "--no-console",
        "-f",
        str(manifests),
    ]
    with made.log.open("ab") as log:
        made.up = subprocess.Popen(
            [*command, "--models", str(ROOT / "examples" / "models")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env=made.environ,
        )


def switch(made: Cluster, python: Path, manifests: Path) -> int:
    """Have another version run, and return the pid of its gateway, once that has the endpoint."""
    before = owner(made)
    versions = Versions(made.home / "versions")
    versions.root.mkdir(exist_ok=True)
    assert made.up is not None
    with versions.switching():
        made.up.send_signal(signal.SIGTERM)
        assert made.up.wait(60) == 0
        assert owner(made) == before, "it serves on without a supervisor"
    start(made, python, manifests)
    made.wait("the next gateway", lambda: owner(made) not in (0, before))
    made.wait_settled()
    return owner(made)


def owner(made: Cluster) -> int:
    """Pid of the gateway that listens; 0 if none does."""
    found = holder(made.home / "gateway.lock")
    return found.pid if found is not None else 0


def used(made: Cluster) -> int:
    """Tokens that have been counted today."""
    return sum(key["tokens"] for key in json.loads((made.home / "usage.json").read_bytes())["keys"])


def test_clients_notice_neither_another_version_nor_the_way_back(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    for name in ("nodes.yaml", "tiny.yaml"):
        (manifests / name).write_bytes((ROOT / "manifests" / name).read_bytes())
    (manifests / "gateway.yaml").write_text(gateway_with_keys(f"127.0.0.1:{free_port()}"))
    mine, other = Path(sys.executable), Installation(tmp_path / "other").python
    with cluster() as made:
        start(made, mine, manifests)
        made.wait_settled()
        (secret,) = [
            word
            for word in made.run("key", "create", "agent").stdout.split()
            if word.startswith("reconciler_")
        ]
        made.wait_settled()
        ranks = [(rank["metadata"]["name"], rank["pid"]) for rank in made.ranks()]
        first = owner(made)
        asking = Asking(made.endpoint(), "tiny", secret, CLIENTS)
        with asking.running():
            made.wait("answers", lambda: asking.whole() > len(CLIENTS))
            second = switch(made, other, manifests)
            so_far = asking.whole()
            made.wait("answers of the other version", lambda: asking.whole() > so_far + len(CLIENTS))
            third = switch(made, mine, manifests)
        assert len({first, second, third}) == 3
        assert set(asking.seen) == {"whole"}
        print(asking.seen)
        assert [(rank["metadata"]["name"], rank["pid"]) for rank in made.ranks()] == ranks
        made.wait("the end of the gateways before", lambda: made.gateway() == [third])
        made.wait("every token counted once", lambda: used(made) == asking.used)
        assert made.stop() == 0
        made.wait_ended()
        assert used(made) == asking.used
