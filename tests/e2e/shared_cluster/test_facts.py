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
    facts = tmp_path / ".reconciler" / "facts.json"
    said = tiny.ask("facts", "export", "-o", str(facts))
    assert "facts of 2 nodes" in said
    assert str(Path.home()) not in facts.read_text()
    for name, (file, before, after) in CHANGES.items():
        folder = tmp_path / name.replace(" ", "-")
        shutil.copytree(ROOT / "manifests", folder)
        (folder / file).write_text((folder / file).read_text().replace(before, after, 1))
        here = tiny.json("plan", "-f", str(folder))
        there = tiny.json("plan", "-f", str(folder), "--facts", str(facts))
        assert here == there, name
        assert any(here["plan"].values()) == (name != "nothing"), name
