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

from tests.bench.figures import Figure, interleaved, paired
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
    times = 1 if quick else 9
    with tempfile.TemporaryDirectory() as folder:
        ours = _Version("this version", Path(folder) / "ours", ROOT)
        before = _Version("the version before", Path(folder) / "before", unpack(Path(folder) / "archive"))
        starts: dict[str, list[_Start]] = {}

        def seconds(version: _Version) -> float:
            start = version.start()
            starts.setdefault(version.name, []).append(start)
            return start.seconds

        if not quick:
            for version in (before, ours):
                version.start()  # the first one compiles what it imports
        yield paired(
            "up -> first token",
            "s",
            *interleaved(times, lambda: seconds(ours), lambda: seconds(before)),
            "<= 0.6",
        )
    mine, others = ([one.cpu for one in starts[version.name]] for version in (ours, before))
    yield paired("the same: CPU of all processes", "s", mine, others)


@dataclass(frozen=True)
class _Start:
    """What one start has taken: seconds until the first token, and processor time of all processes until then."""

    seconds: float
    cpu: float


class _Version:
    """An installation of one version, with the manifests of its quickstart."""

    def __init__(self, name: str, place: Path, tree: Path) -> None:
        self.name = name
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
        with made.log.open("ab") as log:
            made.up = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=made.home.parent,
                env=self._environment(made),
            )

    def _environment(self, made: Cluster) -> dict[str, str]:
        """As people have it: what is imported was compiled by an earlier start."""
        found = self._installation.environment(made.environ)
        found.pop("PYTHONDONTWRITEBYTECODE", None)
        return found


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
