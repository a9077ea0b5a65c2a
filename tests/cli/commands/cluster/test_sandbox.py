"""`reconciler sandbox`: emulated Macs from the command line, and nothing of them afterwards."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from reconciler.cli.core.given import load_paths
from reconciler.cli.core.shipped import SHIPPED
from reconciler.planning.transport.link_addresses import fabric_addresses
from reconciler.resources import ModelDeployment
from reconciler.resources.fabric import Fabric
from reconciler.sandbox import processes
from reconciler.source.yaml.documents import load
from tests.cli.conftest import called
from tests.cli.test_examples import EXAMPLES

pytestmark = pytest.mark.second_tier

FABRIC = """apiVersion: reconciler/v1alpha1
kind: Fabric
metadata: {name: minis}
spec:
  addressing: {pool: 10.99.0.0/24}
  links: [[mini-a/2, mini-b/3]]
"""
NODE = """---
apiVersion: reconciler/v1alpha1
kind: Node
metadata: {name: %s, labels: {mac: %s}}
spec: {local: {}, memory: {reserve: 1GiB}}
"""


STUDIOS = Path(__file__).parents[4] / "examples" / "four-studios"


class Home:
    """A home of its own, with a folder of a person who has no keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.person = folder / "person"
        self.home = folder / "h"
        self.person.mkdir()

    def run(self, *words: str, status: int = 0) -> str:
        """What a command prints; what is wrong, where it is to fail."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "reconciler", "--home", str(self.home), "sandbox", *words],
            env={**os.environ, "HOME": str(self.person), "PYTHONPATH": str(Path(__file__).parents[4])},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    def processes(self) -> list[int]:
        found = sorted(self.home.glob("sandbox/machines/*"))
        return [each.pid for root in found for each in processes.of(root / "Users" / "ada")]


@pytest.fixture
def home() -> Iterator[Home]:
    folder = Path(tempfile.mkdtemp(prefix="sb-"))
    made = Home(folder)
    try:
        yield made
    finally:
        made.run("down")
        shutil.rmtree(folder)


def test_up_break_look_and_down(home: Home) -> None:
    output = home.run("up", "--nodes", "3", "--fabric", "ring", "--mac", "mini", "--detach")
    assert output.splitlines()[-1] == f"next: reconciler --home {home.home} up -f {home.home}/sandbox/cluster"
    manifests = load({"machines.yaml": (home.home / "sandbox/cluster/machines.yaml").read_bytes()})
    assert [(each.manifest.kind, each.manifest.metadata.name) for each in manifests] == [
        ("Node", "mini-1"), ("Node", "mini-2"), ("Node", "mini-3"), ("Fabric", "emulated"),
    ]  # fmt: skip
    (weights,) = home.home.glob("sandbox/machines/mini-1/Users/*/.reconciler/models/*")
    assert weights.samefile(SHIPPED / "models" / "tiny"), "a wheel has no examples"
    assert home.run("unplug", "mini-1/1").strip() == "the cable between mini-1/1 and mini-2/1 is unplugged"
    home.run("gpu-fault", "mini-2", "oom")
    shown = home.run("status")
    assert max(map(len, shown.splitlines())) <= 100
    assert "unplugged" in shown
    assert "GPU fails (oom)" in shown
    world = json.loads(home.run("status", "-o", "json"))
    assert [cable["plugged"] for cable in world["cables"]] == [False, True, True]
    assert "already running" in home.run("up", "--nodes", "1", status=1)
    home.run("down")
    assert home.processes() == []
    assert "no emulated Macs run" in home.run("status", status=1)
    assert list(home.person.iterdir()) == []
    assert sorted(path.name for path in home.folder.iterdir()) == ["h", "person"]


def test_every_example_of_its_commands_is_understood(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.run("up", "--nodes", "4", "--fabric", "mesh", "--detach")
    cli = called(home.home, monkeypatch, capsys)
    lines = [line for line in dict.fromkeys(EXAMPLES) if re.match(r"reconciler sandbox (?!up|down)", line)]
    assert len(lines) > 40
    for line in lines:
        done = cli(*shlex.split(line)[1:])
        assert done.code in (0, 1), f"{line}: {done.err}"
        assert done.code == 0 or done.err.startswith("error: "), f"{line}: {done.err}"


def test_each_node_of_manifests_becomes_a_mac_and_keeps_the_rest_of_its_wishes(home: Home) -> None:
    path = home.folder / "person" / "cluster.yaml"
    path.write_text(FABRIC + NODE % ("mini-a", "mini") + NODE % ("mini-b", "macbook"))
    home.run("up", "-f", str(path), "--detach")
    path.unlink()
    written = list(yaml.safe_load_all((home.home / "sandbox/cluster/machines.yaml").read_text()))
    fabric, one, other = written
    assert fabric["spec"]["links"] == [["mini-a/2", "mini-b/3"]]
    for node in (one, other):
        assert "local" not in node["spec"]
        assert node["spec"]["memory"] == {"reserve": "1GiB"}
        assert node["spec"]["ssh"]["host"] == "127.0.0.1"
    world = json.loads(home.run("status", "-o", "json"))
    assert [machine["model"] for machine in world["machines"]] == ["Mac16,11", "Mac17,6"]
    assert [[cable["a"], cable["b"]] for cable in world["cables"]] == [[["mini-a", 2], ["mini-b", 3]]]


def test_ports_have_the_addresses_that_the_fabric_of_the_manifests_gives_them(home: Home) -> None:
    """Else the controller finds addresses from somebody else, and warns of what the sandbox has done."""
    minis = STUDIOS.parent / "two-minis"
    home.run("up", "-f", str(minis), "--addressed", "--detach")
    (fabric,) = [each.manifest for each in load_paths((str(minis),)) if isinstance(each.manifest, Fabric)]
    wished = {str(end): str(address) for end, address in fabric_addresses(fabric).items()}
    world = json.loads(home.run("status", "-o", "json"))
    ports = {
        f"{each['name']}/{port['receptacle']}": port for each in world["machines"] for port in each["ports"]
    }
    assert {end: ports[end]["address"] for end in wished} == wished


def test_a_number_and_manifests_without_nodes_are_one_cluster(home: Home) -> None:
    home.run("up", "--nodes", "4", "--fabric", "mesh", "-f", f"{STUDIOS}/serving.yaml", "--detach")
    written = load({"machines.yaml": (home.home / "sandbox/cluster/machines.yaml").read_bytes()})
    manifests = [each.manifest for each in written]
    assert [each.kind for each in manifests] == ["Node"] * 4 + [
        "Model", "ModelDeployment", "Gateway", "Fabric",
    ]  # fmt: skip
    (deployment,) = (each for each in manifests if isinstance(each, ModelDeployment))
    selector = deployment.spec.placement.node_selector
    for node in manifests[:4]:
        assert selector.items() <= (node.metadata.labels or {}).items(), "it can be placed on each"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("up", "--nodes", "5", "--mac", "mini", "--detach"), "needs more receptacles"),
        (("up", "--nodes", "2", "--mac", "imac", "--detach"), "there is no type of Mac 'imac'"),
        (("up", "--nodes", "2", "--fabric", "msh"), "error: 'msh' is not mesh, ring, or"),
        (("up", "--nodes", "3", "-f", f"{STUDIOS}", "--detach"), "error: the manifests have 4 Nodes, not 3"),
        (("unplug", "studio-1/3"), " sandbox up --nodes 2 --detach"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(home: Home, words: tuple[str, ...], message: str) -> None:
    assert message in home.run(*words, status=1)
