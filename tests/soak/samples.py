"""What a cluster takes and says of itself at one moment: memory of its processes, MLX's own count, the endpoint's page."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, decode, to_wire
from reconciler.wire.generation import GATEWAY_RECEIVES
from reconciler.wire.measuring import Measure, Measured
from tests.e2e.cluster import Cluster
from tests.processes import cpu_seconds, resident_bytes

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment."""

    at: float
    """Of ``time.monotonic``."""
    resident: dict[str, float]
    """MiB in RAM of each rank, and of the others that live as long as the cluster, by name."""
    active: dict[str, float]
    """MiB that MLX holds, by rank."""
    cpu_seconds: float
    """Of all processes of the cluster so far."""
    page: dict[str, float]
    """Sums of the endpoint's metrics, by name."""

    @property
    def prefix_mib(self) -> float:
        """Of the prefix cache on each rank."""
        return (
            self.page.get("reconciler_prefix_cache_bytes", 0.0) / MIB
        )  # nothing is said of it before an answer


@dataclass(slots=True)
class Sampler:
    """Looks at one cluster with one group, whose ranks stay the same."""

    made: Cluster
    pids: dict[str, int] = field(init=False)
    """Of each rank, by name, and of the others."""
    _socket: str = field(init=False)

    def __post_init__(self) -> None:
        ranks = self.made.ranks()
        self.pids = {f"rank {row['rank']}": row["pid"] for row in ranks}
        self.pids |= {"gateway": self.made.gateway()[0], "controller": self.made.controller()[0]}
        self.pids |= {f"agent {n}": pid for n, pid in enumerate(self.made.agents())}
        (found,) = self.made.home.glob("run/r-*.sock")
        self._socket = str(found)

    def sample(self, at: float) -> Sample:
        """Look. Raises ``OSError`` where a process is gone."""
        resident = {name: resident_bytes(pid) / MIB for name, pid in self.pids.items()}
        return Sample(
            at,
            resident,
            asyncio.run(_active(self._socket)),
            cpu_seconds(self.made.processes()),
            self.made.metrics(),
        )


async def _active(socket: str) -> dict[str, float]:
    """Ask rank 0 what all ranks hold, between two of their steps."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        for message in (Hello("soak", SPOKEN), Measure("soak", 1, 4, 4, under_load=True)):
            writer.write(frames.encode(to_wire(message)))
        async with asyncio.timeout(60):
            while (frame := await frames.read(reader)) is not None:
                if isinstance(found := decode(frame, GATEWAY_RECEIVES), Measured):
                    return {f"rank {at}": one.memory_bytes / MIB for at, one in enumerate(found.ranks)}
    finally:
        writer.close()
    raise OSError("rank 0 closed the connection")
