"""A thousand manifests read and checked."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from reconciler.source.yaml.documents import load
from tests.bench.figures import Figure, interleaved, paired
from tests.e2e.cluster import MODEL, deployment, node

PARSE = "import sys, yaml; list(yaml.load_all(open(sys.argv[1], 'rb'), yaml.CSafeLoader))"


def manifests(count: int) -> str:
    """So many valid documents: nodes and deployments, and one model."""
    nodes = [node(f"node-{number}") for number in range(count // 2)]
    deployments = [deployment(f"tiny-{number}", 2) for number in range(count - len(nodes) - 1)]
    return "---\n".join([*nodes, MODEL, *deployments])


def measure(quick: bool) -> Iterator[Figure]:
    """In one process, and as a command with the start of Python on both sides."""
    count, times = (10, 2) if quick else (1000, 7)
    text = manifests(count).encode()

    def ours() -> object:
        return load({"cluster.yaml": text})

    def parser() -> object:
        return list(yaml.load_all(text, yaml.CSafeLoader))

    yield paired(
        f"{count} documents read and checked", "s", *interleaved(times, _timed(ours), _timed(parser))
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_bytes(text)
        validate = _command("-m", "reconciler", "validate", "-f", str(path))
        parse = _command("-c", PARSE, str(path))
        yield paired(
            f"validate -f, {count} documents", "s", *interleaved(times, _timed(validate), _timed(parse))
        )


def _command(*arguments: str) -> Callable[[], object]:
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)


def _timed(work: Callable[[], object]) -> Callable[[], float]:
    def seconds() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return seconds
