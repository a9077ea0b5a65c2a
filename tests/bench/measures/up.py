"""From `up` in a new home to the first token of a chat completion: by this version, and by the one before it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import Figure, paired
from tests.bench.streams import COUNT, stream
from tests.e2e.cluster import Cluster, cluster
from tests.previous import ROOT, Installation, unpack
from tests.processes import TICKS_PER_SECOND, stat_fields

MODELS = ROOT / "examples" / "models"
MODEL = "tiny"
RETRY_SECONDS = 0.01
"""How often a client asks an endpoint that is not there yet, or does not know the model yet."""
SECONDS_MAX = 120.0
REST_SECONDS = 1.0
"""Between two starts: what the one before it has ended may still be on its way."""


def measure(quick: bool) -> Iterator[Figure]:
    """Both versions are installed the same way, and start the same manifests in turns, each time in a new home."""
    times = 1 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        ours = _Version(Path(folder) / "ours", ROOT)
        before = _Version(Path(folder) / "before", unpack(Path(folder) / "archive"))
        for version in () if quick else (before, ours):
            version.start()  # the first start compiles what it imports
        pairs = [(ours.start(), before.start()) for _ in range(times)]
    mine, peers = [one for one, _ in pairs], [other for _, other in pairs]
    yield paired(
        "up -> first token", "s", [one.seconds for one in mine], [one.seconds for one in peers], "<= 0.6"
    )
    yield paired("the same: CPU of all processes", "s", [one.cpu for one in mine], [one.cpu for one in peers])


@dataclass(frozen=True)
class _Start:
    """What one start has taken."""

    seconds: float
    """Until the first token."""
    cpu: float
    """Processor time of all its processes until then, in seconds."""


class _Version:
    """An installation of one version, with the manifests of its quickstart."""

    def __init__(self, place: Path, tree: Path) -> None:
        self._installation = Installation(place)
        self._installation.install(tree)
        self._manifests = tree / "manifests"

    def start(self) -> _Start:
        """Start a cluster in a new home, ask it one question, and end it."""
        with cluster() as made:
            begun = time.monotonic()
            self._up(made)
            first = asyncio.run(_first_token(made))
            found = _Start(first - begun, _cpu_seconds(made))
        time.sleep(REST_SECONDS)
        return found

    def _up(self, made: Cluster) -> None:
        command = [str(self._installation.python), "-m", "reconciler", "--home", str(made.home), "up"]
        command += ["-f", str(self._manifests), "--models", str(MODELS), "--any-port"]
        environment = self._installation.environment(made.environ)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as people have it
        with made.log.open("ab") as log:
            made.up = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=made.home.parent,
                env=environment,
            )


async def _first_token(made: Cluster) -> float:
    """Ask as a client does that knows nothing: again until it is answered. Return when the first token came."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError, KeyError, TypeError, RuntimeError):
            endpoint = json.loads((made.home / "gateway.json").read_text())["endpoint"]
            return (await stream(endpoint, MODEL, COUNT, 1)).events[0]
        await asyncio.sleep(RETRY_SECONDS)
    raise RuntimeError(f"no token within {SECONDS_MAX:.0f} s:\n{made.diagnostics()}")


def _cpu_seconds(made: Cluster) -> float:
    """User and system time of the cluster's processes, and of their children that have ended."""
    fields = [stat_fields(pid)[11:15] for pid in made.processes()]
    return sum(int(ticks) for each in fields for ticks in each) / TICKS_PER_SECOND
