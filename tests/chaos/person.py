"""Who does what a condition asks a person for, where it names the command, as somebody at the keyboard would."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from tests.e2e.cluster import Cluster

DEPLOYMENT = "large"
COMMAND = f"reconciler rollout restart deployment/{DEPLOYMENT}"
LOOKS_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
"""Between two restarts."""


@dataclass(slots=True)
class Person:
    """Looks now and then."""

    cluster: Cluster
    restarts: int = 0
    _looked_at: float = 0.0
    _acted_at: float = 0.0

    def look(self) -> None:
        """At the deployment, and do what it says."""
        now = time.monotonic()
        if now < self._looked_at + LOOKS_SECONDS:
            return
        self._looked_at = now
        with suppress(AssertionError, KeyError):
            wanted = self._restart_wanted()
            if wanted and now >= self._acted_at + PATIENCE_SECONDS:
                self.cluster.ask(*COMMAND.split()[1:])
                self.restarts, self._acted_at = self.restarts + 1, now

    def _restart_wanted(self) -> bool:
        status = self.cluster.deployments()[DEPLOYMENT]
        messages = [c["message"] for c in status["conditions"] if c["status"] == "True"]
        return status["readyReplicas"] == 0 and any(COMMAND in message for message in messages)
