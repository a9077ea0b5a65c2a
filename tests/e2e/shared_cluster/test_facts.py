"""A change is planned with exported facts as the running controller plans it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.cluster import ROOT, Cluster

pytestmark = pytest.mark.e2e

CHANGES = {
    "nothing": ("tiny.yaml", "", ""),
    "another context": ("tiny.yaml", "context: 2048", "context: 1024"),
    "a replica more": ("tiny.yaml", "replicas: 1", "replicas: 2"),
    "nodes that are not there": ("tiny.yaml", "nodes: 2", "nodes: 5"),
    "weights that are not there": ("tiny.yaml", "path: tiny", "path: ghost"),
    "a node under another name": ("nodes.yaml", "name: node-b", "name: node-c"),
}


def test_the_plan_from_exported_facts_is_that_of_the_controller(tiny: Cluster, tmp_path: Path) -> None:
    compare(tiny, tmp_path, tuple(CHANGES))
    tiny.run("cordon", "node-b", "-m", "its fan is loud")
    try:
        tiny.wait("the cordon", lambda: tiny.json("get", "node", "node-b")["spec"].get("unschedulable"))
        text = compare(tiny, tmp_path / "cordoned", ("another context",))
        assert "loud" not in text
    finally:
        tiny.run("uncordon", "node-b")


def compare(tiny: Cluster, folder: Path, changes: tuple[str, ...]) -> str:
    """Plan changes here and with the facts of this moment; return what was exported."""
    facts = folder / ".reconciler" / "facts.json"
    assert "facts of 2 nodes" in tiny.ask("facts", "export", "-o", str(facts))
    assert str(Path.home()) not in facts.read_text()
    revision = tiny.json("version")["revision"]
    for name in changes:
        file, before, after = CHANGES[name]
        made = folder / name.replace(" ", "-")
        shutil.copytree(ROOT / "manifests", made)
        (made / file).write_text((made / file).read_text().replace(before, after, 1))
        here = tiny.json("plan", "-f", str(made))
        there = tiny.json("plan", "-f", str(made), "--facts", str(facts))
        assert there.pop("facts")["revision"] == revision
        assert here == there, name
        assert any(here["plan"].values()) == (name != "nothing"), name
    return facts.read_text()
