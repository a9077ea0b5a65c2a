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
        for name, used in (("up -> first token", True), ("the same, first home of a user", False)):
            pairs = [(ours.start(used), before.start(used)) for _ in range(times)]
            for what, unit, aim, of in (
                (name, "s", "<= 0.6" if used else "", _Start.seconds),
                (f"{name}: CPU", "s", "", _Start.cpu_seconds),
            ):
                yield paired(
                    what, unit, [of(mine) for mine, _ in pairs], [of(peer) for _, peer in pairs], aim
                )


@dataclass(frozen=True)
class _Start:
    """What one start has taken."""

    until_token: float
    """Seconds until the first token."""
    cpu: float
    """Processor time of all its processes until then."""

    def seconds(self) -> float:
        return self.until_token

    def cpu_seconds(self) -> float:
        return self.cpu


class _Version:
    """An installation of one version, with the manifests of its quickstart."""

    def __init__(self, place: Path, tree: Path) -> None:
        self._place = place
        self._installation = Installation(place)
        self._installation.install(tree)
        self._manifests = tree / "manifests"

    def start(self, used: bool = True) -> _Start:
        """Start a cluster in a new home, ask it one question, and end it. ``used``: by a user who has had a home before,
        whose cache has what MLX has compiled."""
        with cluster() as made:
            cache = self._place / "cache" if used else made.home.parent / "cache"
            begun = time.monotonic()
            self._up(made, cache)
            first = asyncio.run(_first_token(made))
            found = _Start(first - begun, _cpu_seconds(made))
        time.sleep(REST_SECONDS)
        return found

    def _up(self, made: Cluster, cache: Path) -> None:
        command = [str(self._installation.python), "-m", "reconciler", "--home", str(made.home), "up"]
        command += ["-f", str(self._manifests), "--models", str(MODELS), "--any-port"]
        environment = {**self._installation.environment(made.environ), "XDG_CACHE_HOME": str(cache)}
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
