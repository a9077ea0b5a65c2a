"""A group that dies at once, each time: it is formed again after longer and longer waits, and that is said."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outgoing.receiver import Receiver, receiver

from .cluster import MODEL, ROOT, Cluster, cluster, deployment, node

pytestmark = pytest.mark.e2e
LOOP_SECONDS = 240.0
"""Three ranks, one after the other, the last after ten seconds."""

CRASHING = """import ctypes
print("its own model code begins", flush=True)
print("and reads where nothing is", flush=True)
ctypes.string_at(0)
"""
"""Code that comes with weights, and that ends the process that trusts it."""


NOTIFIER = """apiVersion: reconciler/v1alpha1
kind: Notifier
metadata:
  name: on-call
spec:
  webhook:
    urlFrom:
      file: {file}
"""


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture
def doomed(tmp_path: Path, hook: Receiver) -> Iterator[Cluster]:
    """A cluster whose only model crashes every rank that loads it."""
    weights = tmp_path / "models"
    shutil.copytree(ROOT / "examples/models/tiny", weights / "tiny")
    shutil.copytree(ROOT / "examples/models/tiny", weights / "crashing")
    config = weights / "crashing/config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_file": "own.py"}))
    (weights / "crashing/own.py").write_text(CRASHING)
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "node.yaml").write_text(node("node-a"))
    (manifests / "model.yaml").write_text(_model("crashing"))
    (manifests / "tiny.yaml").write_text(deployment("tiny", nodes=1))
    (tmp_path / "url").write_text(hook.url)
    (manifests / "notifier.yaml").write_text(NOTIFIER.format(file=tmp_path / "url"))
    with cluster() as made:
        made.start("-f", str(manifests), "--models", str(weights), "--any-port")
        yield made


def _model(path: str) -> str:
    return MODEL.replace("    path: tiny\n", f"    path: {path}\n  trustRemoteCode: true\n")


def stalled(cluster: Cluster) -> dict[str, str]:
    conditions = {each["type"]: each for each in cluster.deployments()["tiny"]["conditions"]}
    return dict(conditions["Stalled"])


def test_a_rank_that_crashes_at_once_each_time_is_in_a_crash_loop_until_the_manifest_is_put_right(
    doomed: Cluster, hook: Receiver, tmp_path: Path
) -> None:
    doomed.wait(
        "a crash loop",
        lambda: stalled(doomed)["reason"] == "CrashLoopBackOff",
        LOOP_SECONDS,
    )
    condition = stalled(doomed)
    assert re.match(r"formed again \d times in \d+ s, the last after rank 0 on node-a", condition["message"])
    assert "was killed by signal 11" in condition["message"]
    page = doomed.run("describe", "deployment", "tiny").stdout
    log = re.search(r"Last log of (tiny\.0\.\d\.0) on node-a:(.*)", page, re.DOTALL)
    assert log is not None
    assert "  and reads where nothing is\n" in log[2]
    assert f"(full log: reconciler logs {log[1]})" in log[2]

    for victim in doomed.controller():  # the next one comes to the same verdict
        os.kill(victim, signal.SIGKILL)
    doomed.wait("another controller", lambda: stalled(doomed)["reason"] == "CrashLoopBackOff")

    corrected = tmp_path / "model.yaml"
    corrected.write_text(MODEL)
    doomed.run("apply", "-f", str(corrected))
    doomed.wait_settled()
    (row,) = doomed.ranks()
    formed = [event for event in doomed.events() if event["reason"] == "EpochAllocated"]
    assert row["epoch"] == len(formed) >= 4, "the first one, two that crashed as well, and one that serves"
    assert stalled(doomed)["status"] == "False"
    check_events(doomed, hook, row["epoch"])


def check_events(cluster: Cluster, hook: Receiver, epoch: int) -> None:
    """All of it was one incident, over the end of a controller too, and the webhook was told once that it began."""
    (incident,) = cluster.json("incidents")["items"]
    tried = [entry["text"] for entry in incident["entries"] if entry["kind"] == "tried"]
    assert sum(text.startswith("form epoch ") for text in tried) == epoch - 1
    assert incident["entries"][-1]["text"] == f"tiny/0 serves again as epoch {epoch}"
    assert (incident["class"], incident["open"]) == ("C8", False)
    opened = [text for text in hook.texts if text.startswith("[opened]")]
    assert len(opened) == 1
    assert opened[0].startswith(
        "[opened] modeldeployment/tiny: rank crash (C8): rank 0 on node-a (epoch 1, pid "
    )
    assert "was killed by signal 11" in opened[0]
    assert hook.paths == ["/hook/s3cret"] * len(hook.texts)
    shown = [cluster.run(*command).stdout for command in (("events",), ("get", "notifiers", "-o", "yaml"))]
    log = (cluster.home / "logs/controller.log").read_text()
    assert "s3cret" not in "".join((*shown, log))
