"""The programs that ranks run: an engine for models, and the launcher for jobs. Pure facts, a row for each.

Both sides know them: a controller asks for a program, and an agent starts standby processes of an engine before that.
The code of a rank is in ``runner/`` and ``launcher/``.
"""

from __future__ import annotations

import dataclasses
from typing import List, Mapping, Optional, Tuple


@dataclasses.dataclass(frozen=True)
class RankProgram:
    """A module that runs as a rank."""

    module: str
    environment: Mapping[str, str]
    """Variables of a rank."""

    @property
    def room(self) -> str:
        """Return the package of the module within this product."""
        return self.module.split(".")[1]

    def argv(self, python: str) -> Tuple[str, ...]:
        """Return the command of a rank; ``python`` is the interpreter's path on its node."""
        return (python, "-m", self.module)


@dataclasses.dataclass(frozen=True)
class Engine(RankProgram):
    """An inference library, and the program that serves a model with it."""

    pins: Tuple[str, ...]
    """Distributions that an interpreter needs to run a rank, in pip's notation, with the versions that the product was
    made for."""
    imports: Tuple[str, ...]
    """Their modules, which a new runtime must import."""
    equal: Tuple[str, ...]
    """Those that must have one version in a group. The others are used by rank 0 alone."""

    @property
    def packages(self) -> Tuple[str, ...]:
        """List the names of the distributions."""
        return tuple(pin.partition("==")[0] for pin in self.pins)

    def lacking(self, runtime: Optional[Mapping[str, str]]) -> List[str]:
        """Return the packages that a runtime does not have; ``runtime`` has versions by package, None if unknown."""
        return [name for name in self.packages if not (runtime or {}).get(name)]


MLX = Engine(
    "reconciler.runner",
    {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"},
    pins=("mlx==0.32.4", "mlx-lm==0.32.2", "llguidance==1.9.1"),
    imports=("mlx.core", "mlx_lm", "llguidance"),
    equal=("mlx", "mlx-lm"),
)
ENGINES = (MLX,)
"""All engines; standby processes are of the first."""
JOB = RankProgram("reconciler.launcher", {"PYTHONUNBUFFERED": "1"})
"""The rank of a job, which starts any command."""
