"""The engine that ranks run: pure facts about it, in one place.

The rest of the product asks this module for packages, the command of a rank, transports and
limits. The code of a rank is in ``runner/``; the agent gets the command of each rank with its launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class EngineTransport:
    """A transport between the ranks of a group."""

    name: str
    """Its name in ``spec.transport``."""
    backend: str
    """The engine's own name."""
    rdma: bool = False
    """True if it registers memory with RDMA devices."""
    cables: bool = False
    """True if it needs Thunderbolt cables between its ranks; otherwise any network is enough."""
    ring: bool = False
    """True if each rank talks only to its two neighbours, over cables."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Facts about an engine that the product needs to place, start and judge its ranks."""

    packages: tuple[str, ...]
    """Distributions that an interpreter needs to run a rank."""
    pins: tuple[str, ...]
    """The same, in pip's notation, with the versions that the product was made for."""
    imports: tuple[str, ...]
    """Their modules, which a new runtime must import."""
    rank: str
    """The module that runs as a rank."""
    environment: Mapping[str, str]
    """Variables of a rank. The agent starts standby processes, which also examine weights, with the same program and
    variables. It must not import this module, so a test keeps both equal."""
    transports: tuple[EngineTransport, ...]
    """Transports, fastest first."""
    rdma_setups_max: int
    """Set-ups of RDMA without a serving group in one boot of a machine, before a restart is needed."""
    gid_index: int
    """The index of the GID that RDMA uses, in a port's table of GIDs."""
    wires_max: int
    """Most cables between two ranks that carry RDMA together."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """List the transports over RDMA."""
        return tuple(each.name for each in self.transports if each.rdma)

    def argv(self, python: str) -> tuple[str, ...]:
        """Return the command of a rank; ``python`` is the interpreter's path on its node."""
        return (python, "-m", self.rank)

    def lacking(self, runtime: Mapping[str, str] | None) -> list[str]:
        """Return the packages that a runtime does not have; ``runtime`` has versions by package, None if unknown."""
        return [name for name in self.packages if not (runtime or {}).get(name)]


MLX = Engine(
    packages=("mlx", "mlx-lm", "llguidance"),
    pins=("mlx==0.32.4", "mlx-lm==0.32.2", "llguidance==1.9.1"),
    imports=("mlx.core", "mlx_lm", "llguidance"),
    rank="reconciler.runner",
    environment=MappingProxyType({"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}),
    transports=(
        EngineTransport("jaccl", "jaccl", rdma=True, cables=True),
        EngineTransport("jaccl-ring", "jaccl", rdma=True, cables=True, ring=True),
        EngineTransport("ring", "ring", cables=True, ring=True),
        EngineTransport("ring-lan", "ring"),
    ),
    rdma_setups_max=5,  # a Mac has eleven protection domains, and a failed set-up may keep one
    gid_index=1,  # fixed in rdma.cpp of 0.32, which announces the first mapped GID of any index: RTR fails with errno 22
    wires_max=4,  # RING_MAX_CONNS of ring_impl.h; a mesh has no limit of its own
)
SCRIPT = replace(
    MLX,
    packages=(),
    pins=(),
    imports=(),
    rank="reconciler.launcher",
    environment=MappingProxyType({"PYTHONUNBUFFERED": "1"}),
)
"""The program of a job's rank, which starts any command. Its ranks use the transports of MLX."""
