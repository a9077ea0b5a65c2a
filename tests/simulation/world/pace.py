"""How often those look who look now and then: less often where nothing is to be seen for a long time."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.inventory.gateways_on_nodes import KEEP_SECONDS


@dataclass(frozen=True)
class Pace:
    """Seconds between two looks: of agents at their ranks, of a controller at nodes, its home, and by probes."""

    look_seconds: float
    resync_seconds: float
    home_poll_seconds: float
    probes_seconds: float

    @property
    def keep_seconds(self) -> float:
        """Of a controller at the gateways of nodes."""
        return KEEP_SECONDS * self.resync_seconds / BUSY.resync_seconds


BUSY = Pace(1.0, 10.0, 2.0, 10.0)
CALM = Pace(10.0, 30.0, 8.0, 30.0)
QUIET = Pace(900.0, 900.0, 7200.0, 900.0)
