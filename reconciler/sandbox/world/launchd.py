"""The states of a service of launchd, and what each verb of ``launchctl`` does to it. Pure, standard library only.

As macOS behaves by public reports: ``bootout`` returns before the service is gone. A service that is there or still
stopping cannot be loaded, nor one that is disabled, also after a restart, nor one without a definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

IO_ERROR, NO_PROCESS, NO_SERVICE = 5, 3, 113
"""Exit statuses of ``launchctl``."""
STOP_SECONDS = 3.0
"""Time from ``bootout`` until the service is gone."""


class State(StrEnum):
    ABSENT = "absent"
    RUNNING = "running"
    STOPPING = "stopping"


STEPS: Mapping[tuple[str, State], tuple[State, int]] = {
    ("print", State.ABSENT): (State.ABSENT, NO_SERVICE),
    ("print", State.RUNNING): (State.RUNNING, 0),
    ("print", State.STOPPING): (State.STOPPING, 0),
    ("bootstrap", State.ABSENT): (State.RUNNING, 0),
    ("bootstrap", State.RUNNING): (State.RUNNING, IO_ERROR),
    ("bootstrap", State.STOPPING): (State.STOPPING, IO_ERROR),
    ("bootout", State.ABSENT): (State.ABSENT, NO_PROCESS),
    ("bootout", State.RUNNING): (State.STOPPING, 0),
    ("bootout", State.STOPPING): (State.STOPPING, 0),
    ("kickstart", State.ABSENT): (State.ABSENT, NO_SERVICE),
    ("kickstart", State.RUNNING): (State.RUNNING, 0),
    ("kickstart", State.STOPPING): (State.STOPPING, 0),
}
"""The next state and the exit status, by verb and state, of a service that is not disabled."""


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the system's domain."""

    label: str
    path: str = ""
    """Its definition; empty if there is none."""
    state: State = State.ABSENT
    gone_at: float = 0.0
    """The time when a service that is stopping is gone, in seconds since the Unix epoch."""
    disabled: bool = False
    """True if it is not loaded until ``enable``; it stays so over a restart, and a running service continues."""

    def at(self, now: float) -> Service:
        gone = self.state == State.STOPPING and now >= self.gone_at
        return replace(self, state=State.ABSENT) if gone else self

    def after_boot(self, allowed: bool = True) -> Service:
        """Return it after a restart, which loads every definition that is not disabled, if a person allows that."""
        loads = allowed and self.path and not self.disabled
        return replace(self, state=State.RUNNING if loads else State.ABSENT)


def step(service: Service, verb: str, now: float, stop_seconds: float = STOP_SECONDS) -> tuple[Service, int]:
    """Return the service after a verb, and the exit status. Raises ``KeyError`` for other verbs."""
    service = service.at(now)
    if verb in ("enable", "disable"):
        return replace(service, disabled=verb == "disable"), 0
    if verb == "bootstrap" and (service.disabled or not service.path):
        return service, IO_ERROR
    state, code = STEPS[verb, service.state]
    stops = state == State.STOPPING != service.state
    return replace(service, state=state, gone_at=now + stop_seconds if stops else service.gone_at), code
