"""A scanner that connects to every port of the ranks while their groups form, and holds on, costs nobody anything."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from .cluster import MODEL, ROOT, Cluster, cluster, deployment, node

pytestmark = pytest.mark.e2e

FORMINGS = int(os.environ.get("FORMINGS", "2"))
"""With the scanner, and as many without it; `FORMINGS=20` takes a quarter of an hour."""
NOISE_SECONDS = 2.0
"""Machines of tests are shared: one forming may take so much longer for that alone."""
FORMED_SECONDS = 90.0


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Cluster]:
    """A deployment over two nodes, and another one on one of them."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    for name in ("node-a", "node-b"):
        (manifests / f"{name}.yaml").write_text(node(name))
    (manifests / "model.yaml").write_text(MODEL)
    shutil.copy(ROOT / "manifests" / "gateway.yaml", manifests)
    (manifests / "tiny.yaml").write_text(deployment("tiny", nodes=2))
    (manifests / "other.yaml").write_text(deployment("other", nodes=1))
    with cluster() as made:
        made.start("-f", str(manifests), "--models", str(ROOT / "examples" / "models"), "--any-port")
        made.wait_settled()
        yield made


@pytest.mark.timeout(2 * FORMINGS * FORMED_SECONDS + 300)
@pytest.mark.nightly
def test_a_scanner_on_every_port_delays_no_forming_and_is_charged_to_nobody(made: Cluster) -> None:
    with asking(made, "other") as undisturbed_answers:
        undisturbed = [form_again(made) for _ in range(FORMINGS)]
    with scanning(made) as scanned, asking(made, "other") as answers:
        formings = [form_again(made) for _ in range(FORMINGS)]
    print(f"formings undisturbed {spread(undisturbed)}, scanned {spread(formings)}; {scanned}")
    print(f"answers of others undisturbed {spread(undisturbed_answers)}, scanned {spread(answers)}")
    assert scanned["connections"] >= 3 * FORMINGS
    assert statistics.median(formings) <= 2 * statistics.median(undisturbed)
    assert max(formings) <= 2 * max(undisturbed) + NOISE_SECONDS
    assert statistics.median(answers) <= 2 * statistics.median(undisturbed_answers) + 0.1
    texts = [event["message"] for event in made.events()]
    assert not [text for text in texts if "exited with 65" in text or "exited with 66" in text]
    reasons = {event["reason"] for event in made.events()}
    assert not reasons & {"Stalled", "BackOff"}, reasons
    assert made.json("incidents")["items"] == []


def form_again(made: Cluster) -> float:
    """Restart the deployment; seconds from the epoch of its next group to its proof."""
    before = made.last_event()
    made.run("rollout", "restart", "deployment/tiny")

    def times() -> list[datetime]:
        latest = {
            event["reason"]: event["time"]
            for event in sorted(made.events(), key=lambda event: int(event["id"]))
            if event["id"] > before and "tiny" in event["object"]
        }
        return [datetime.fromisoformat(latest[each]) for each in ("EpochAllocated", "GroupProven")]

    made.wait("the next group", times, FORMED_SECONDS)
    made.wait_settled()
    allocated, proven = times()
    return (proven - allocated).total_seconds()


@contextmanager
def scanning(made: Cluster) -> Iterator[dict[str, Any]]:
    """The scanner; what it has done is there afterwards."""
    done: dict[str, Any] = {}
    command = [sys.executable, "-m", "tests.scanner", str(made.home)]
    scanner = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=made.environ
    )
    try:
        yield done
    finally:
        printed, _ = scanner.communicate(timeout=60)
        done.update(json.loads(printed))


@contextmanager
def asking(made: Cluster, name: str) -> Iterator[list[float]]:
    """Somebody who asks a deployment one question after the other; how long each answer took, in seconds."""
    body = {
        "model": name,
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0,
        "max_tokens": 20,
    }
    url, content = f"{made.endpoint()}/chat/completions", json.dumps(body).encode()
    seconds: list[float] = []
    over = threading.Event()
    failures: list[Exception] = []

    def ask() -> None:
        while not over.wait(0.2):
            began = time.monotonic()
            try:
                request = urllib.request.Request(url, content, {"content-type": "application/json"})
                with urllib.request.urlopen(request, timeout=FORMED_SECONDS) as answer:
                    assert json.load(answer)["choices"]
            except Exception as error:  # noqa: BLE001  # whatever it is, the test is told of it
                failures.append(error)
                return
            seconds.append(time.monotonic() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield seconds
    finally:
        over.set()
        thread.join()
    assert not failures
    assert seconds


def spread(seconds: list[float]) -> str:
    """Least, median and most, in seconds."""
    return f"{min(seconds):.2f}/{statistics.median(seconds):.2f}/{max(seconds):.2f} s"
