"""Facts about a run that the nodes of an attempt keep for a controller that has lost its store. With them, the controller
judges a run as if nothing had been lost.

It goes with the launch of each rank (``LaunchSpec.formed_for``), and agents report it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from reconciler.state import GroupRecord, RunId
from reconciler.state.jobs import COUNTED, AttemptEnd, Run, RunAttempt

ATTEMPTS_MAX = 1000
"""Most attempts of each kind to believe a node: more than any run has."""
TEXT = "the store has lost what it was"


@dataclass(frozen=True, slots=True)
class History:
    """A run before one of its attempts."""

    started_at: float
    """Time in seconds since the Unix epoch, as all times here."""
    scheduled_at: float | None = None
    suspended_seconds: float = 0.0
    failures: int = 0
    """Attempts that count against ``backoffLimit``."""
    losses: int = 0
    """Attempts that ended with a node."""
    boots: tuple[str, ...] = ()
    """The boot id of each node when the attempt was placed, in the order of ranks."""

    @classmethod
    def of(cls, run: Run, record: GroupRecord) -> History:
        begun = run.started_at if run.started_at is not None else record.created_at
        return cls(
            begun, run.scheduled_at, run.suspended_seconds, run.failures, run.node_losses, record.boots
        )

    @classmethod
    def parse(cls, text: str) -> History | None:
        """Read what ``written`` has made; None if it is anything else."""
        try:
            found = cls(**json.loads(text))
            return cls(
                float(found.started_at),
                None if found.scheduled_at is None else float(found.scheduled_at),
                float(found.suspended_seconds),
                min(int(found.failures), ATTEMPTS_MAX),
                min(int(found.losses), ATTEMPTS_MAX),
                tuple(map(str, found.boots)),
            )
        except (ValueError, TypeError):
            return None

    @property
    def written(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def run(self, id: RunId, fingerprint: str, epoch: int) -> Run:
        """Return the run as it was before its attempt with this epoch."""
        return Run(
            id,
            fingerprint,
            self.started_at,
            scheduled_at=self.scheduled_at,
            started_at=self.started_at,
            suspended_seconds=self.suspended_seconds,
            attempts=tuple(self._attempts(epoch)),
        )

    def _attempts(self, epoch: int) -> Iterator[RunAttempt]:
        ends = (COUNTED[0],) * self.failures + (AttemptEnd.NODE_LOST,) * self.losses
        for number, end in enumerate(ends, start=epoch - len(ends)):
            yield RunAttempt(number, self.started_at, self.started_at, end, TEXT, ())
