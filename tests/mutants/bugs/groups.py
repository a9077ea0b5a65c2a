"""All catalogues, by what they are about."""

from __future__ import annotations

from collections.abc import Mapping

from tests.mutants.mutant import Mutant

from .catalogue import MUTANTS
from .handing_over import HANDED_OVER
from .handling import HANDLED
from .messages import MESSAGES
from .oversights import OVERSIGHTS
from .placing import PLACED
from .repairing import REPAIRED
from .requests import REQUESTS
from .rolling import ROLLED
from .seconds import SECONDS

GROUPS: Mapping[str, tuple[Mutant, ...]] = {
    "healing": MUTANTS,
    "handling": (*HANDLED, *HANDED_OVER),
    "placing": PLACED,
    "repairing": REPAIRED,
    "rolling": ROLLED,
    "requests": (*REQUESTS, *MESSAGES),
    "oversights": OVERSIGHTS,
    "seconds": SECONDS,
}
EVERY: tuple[Mutant, ...] = tuple(mutant for group in GROUPS.values() for mutant in group)
