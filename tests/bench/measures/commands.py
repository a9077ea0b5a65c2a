"""How long commands take that people wait for, as processes of their own, asked of a running controller."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure, alone
from tests.cli.live import MANIFESTS, Live, live, manifest

COMMANDS = (
    "help",
    "get all",
    "get ranks",
    "describe deployment tiny",
    "plan",
    "events",
    "rollout history deployment/tiny",
    "trace deployment/tiny",
    "explain deployment.spec",
    "validate -f DIR",
    "diff -f DIR",
)
TIMES = 15


def measure(quick: bool) -> Iterator[Figure]:
    """The median of several runs each; the controller has one node and no ranks."""
    with live() as cluster, tempfile.TemporaryDirectory() as folder:
        for name in MANIFESTS:  # two of them differ from what was applied
            text = manifest(name).replace("{model: tiny}", "{model: tiny, replicas: 2}")
            (Path(folder) / f"{name}.yaml").write_text(text)
        cluster.run("wait", "deployment/tiny", "--for=condition=Stalled", "--timeout=60s")
        for command in COMMANDS:
            words = command.replace("DIR", folder).split()
            taken = [_seconds(cluster, words) for _ in range(2 if quick else TIMES)]
            yield alone(command, "ms", [1000 * each for each in taken[1:]], "< 250")
        taken = [_completion_seconds(cluster) for _ in range(2 if quick else TIMES)]
        yield alone("get modeldeployments ti<TAB>", "ms", [1000 * each for each in taken[1:]], "< 250")


def _seconds(cluster: Live, words: list[str]) -> float:
    line, started = cluster.command(*words), time.monotonic()
    done = subprocess.run(line, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == (words[0] == "diff"), f"{words} ended with {done.returncode}"
    return time.monotonic() - started


def _completion_seconds(cluster: Live) -> float:
    """As bash asks, with each key that a person presses after the beginning of a name."""
    asked = {
        "COMP_WORDS": "reconciler get modeldeployments ti",
        "COMP_CWORD": "3",
        "_RECONCILER_COMPLETE": "bash_complete",
        "RECONCILER_HOME": str(cluster.home),
    }
    line, started = [sys.executable, "-m", "reconciler"], time.monotonic()
    done = subprocess.run(line, env={**os.environ, **asked}, stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout == "plain,tiny\n"
    return time.monotonic() - started
