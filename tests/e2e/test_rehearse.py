"""`reconciler rehearse`: an example is served by emulated Macs, changed, broken, and heals; nothing is left of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.cluster import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

COMMAND = (sys.executable, "-P", "-m", "reconciler", "rehearse")
PLACE = "/tmp/rh-"
"""How every folder of a rehearsal begins."""
END_SECONDS = 90.0


def mine(environment: dict[str, str]) -> set[str]:
    """The homes of rehearsals that processes of this test have begun: those of others may come and go."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            variables = dict(
                each.partition("=")[::2] for each in path.read_bytes().decode(errors="replace").split("\0")
            )
            if variables.get("REHEARSED_BY") == environment["REHEARSED_BY"]:
                found.add(variables.get("RECONCILER_HOME", ""))
    return {home for home in found if home.startswith(PLACE)}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The example, with a gateway that holds requests for as long as a rehearsal waits for its cluster to heal. A new group
    over RDMA reads a prompt as long as the context twice, which takes a CPU a moment."""
    folder = tmp_path / "base"
    shutil.copytree(ROOT / "examples" / "two-minis", folder)
    _changed(folder, "  placement:", "  serving: {context: 512}\n  placement:")
    return _changed(folder, "  auth:", "  hold: 2m\n  auth:")


@pytest.fixture
def change(tmp_path: Path, base: Path) -> Path:
    """The base with another batch."""
    folder = tmp_path / "change"
    shutil.copytree(base, folder)
    return _changed(folder, "{context: 512}", "{context: 512, maxBatch: 8}")


def _changed(folder: Path, old: str, new: str) -> Path:
    serving = folder / "serving.yaml"
    text = serving.read_text()
    assert text.count(old) == 1
    serving.write_text(text.replace(old, new))
    return folder


def test_a_change_is_served_a_killed_rank_and_a_pulled_cable_heal_and_nothing_is_left(
    base: Path, change: Path
) -> None:
    environment = {**os.environ, "REHEARSED_BY": str(os.getpid())}
    done = subprocess.run(
        (*COMMAND, "-f", str(change), "--base", str(base), "-o", "json"),
        cwd=change,
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    body = json.loads(done.stdout)
    names = [step["name"].partition(" on ")[0].partition(" at ")[0] for step in body["steps"]]
    assert names == ["start the base", "apply the change", "kill a rank", "pull the cable"]
    assert all(step["ok"] and step["servedAfter"] is not None for step in body["steps"])
    assert all(step["seenAfter"] <= step["servedAfter"] for step in body["steps"])
    failed = [(step["name"], step["said"]) for step in body["steps"] if step["failed"]]
    assert failed == [], "the gateway holds requests meanwhile"
    assert "killed by signal 9" in " ".join(body["steps"][2]["said"])
    assert mine(environment) == set()


def test_ctrl_c_ends_everything(change: Path) -> None:
    environment = {**os.environ, "REHEARSED_BY": f"{os.getpid()}-c"}
    started = subprocess.Popen(
        (*COMMAND, "-f", str(change), "--base", str(change)),
        cwd=change, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + END_SECONDS
        while not any((Path(home) / "controller.sock").exists() for home in mine(environment)):
            assert started.poll() is None, started.stdout and started.stdout.read()
            assert time.monotonic() < deadline, "no controller was started"
            time.sleep(0.1)
        homes = mine(environment)
        started.send_signal(signal.SIGINT)
        assert started.wait(END_SECONDS) == 130
    finally:
        if started.poll() is None:
            started.terminate()
            started.wait(END_SECONDS)
    assert started.stdout is not None
    started.stdout.close()
    assert mine(environment) == set()
    assert not any(Path(home).parent.exists() for home in homes)
