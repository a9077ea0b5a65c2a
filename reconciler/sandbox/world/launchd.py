"""The states of a service of launchd and of its process, and what each verb of ``launchctl`` does. Pure, standard library only.

As macOS behaves by public reports: ``bootout`` returns before the service is gone. launchd does not load a service that
is there or still stopping. It loads none that is disabled, also after a restart, and none that a person does not allow in
the background. A definition has to be a property list that only root can change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

IO_ERROR, NO_PROCESS, NO_SERVICE = 5, 3, 113
"""Exit statuses of ``launchctl``."""
STOP_SECONDS = 3.0
"""Time from ``bootout`` until the service is gone."""
THROTTLE_SECONDS = 10.0
"""launchd starts a service at most every ten seconds (launchd.plist(5), ``ThrottleInterval``)."""
NEVER = float("inf")


class State(StrEnum):
    ABSENT = "absent"
    LOADED = "loaded"
    STOPPING = "stopping"


class Flaw(StrEnum):
    """A reason why launchd does not take a definition that is there."""

    NONE = ""
    SYNTAX = "no property list"
    OWNER = "another owner than root"
    MODE = "others may write it"


STEPS: Mapping[tuple[str, State], tuple[State, int]] = {
    ("print", State.ABSENT): (State.ABSENT, NO_SERVICE),
    ("print", State.LOADED): (State.LOADED, 0),
    ("print", State.STOPPING): (State.STOPPING, 0),
    ("bootstrap", State.ABSENT): (State.LOADED, 0),
    ("bootstrap", State.LOADED): (State.LOADED, IO_ERROR),
    ("bootstrap", State.STOPPING): (State.STOPPING, IO_ERROR),
    ("bootout", State.ABSENT): (State.ABSENT, NO_PROCESS),
    ("bootout", State.LOADED): (State.STOPPING, 0),
    ("bootout", State.STOPPING): (State.STOPPING, 0),
    ("kickstart", State.ABSENT): (State.ABSENT, NO_SERVICE),
    ("kickstart", State.LOADED): (State.LOADED, 0),
    ("kickstart", State.STOPPING): (State.STOPPING, 0),
}
"""The next state and the exit status, by verb and state, of a service that nothing holds back."""


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
    """True if it is not loaded until ``enable``; it stays so over a restart, and a loaded service continues."""
    flaw: Flaw = Flaw.NONE
    """The flaw of its definition, which a loaded service does not feel."""
    kicked_at: float = 0.0
    """The time of the last ``kickstart``, in seconds since the Unix epoch."""

    def at(self, now: float) -> Service:
        gone = self.state == State.STOPPING and now >= self.gone_at
        return replace(self, state=State.ABSENT) if gone else self

    def loads(self, allowed: bool) -> bool:
        """Return whether launchd takes its definition. ``allowed``: a person allows it in the background."""
        return allowed and bool(self.path) and not self.disabled and not self.flaw

    def after_boot(self, allowed: bool = True) -> Service:
        """Return it after a restart, which loads every definition that nothing holds back, as soon as the disk is
        unlocked and before anybody logs in."""
        return replace(self, state=State.LOADED if self.loads(allowed) else State.ABSENT)


def step(
    service: Service, verb: str, now: float, stop_seconds: float = STOP_SECONDS, allowed: bool = True
) -> tuple[Service, int]:
    """Return the service after a verb, and the exit status. Raises ``KeyError`` for other verbs."""
    service = service.at(now)
    if verb in ("enable", "disable"):
        return replace(service, disabled=verb == "disable"), 0
    if verb == "bootstrap" and not service.loads(allowed):
        return service, IO_ERROR
    state, code = STEPS[verb, service.state]
    stops = state == State.STOPPING != service.state
    kicked = verb == "kickstart" and state == State.LOADED
    after = replace(
        service,
        state=state,
        gone_at=now + stop_seconds if stops else service.gone_at,
        kicked_at=now if kicked else service.kicked_at,
    )
    return after, code


@dataclass(frozen=True, slots=True)
class Job:
    """The process of a loaded service with ``RunAtLoad``, and ``KeepAlive`` with the ``PathState`` of its script.

    launchd looks for the script when the process ends, and when it notices that the script appears. The manual calls the
    latter prone to races: what is not noticed starts nothing before the next ``kickstart``, load or boot.
    """

    start_at: float
    """The time of the next start, such as that of the load; ``NEVER`` while launchd waits for the script."""
    started_at: float = -NEVER
    running: bool = False

    def at(self, now: float) -> Job:
        due = not self.running and now >= self.start_at
        return Job(NEVER, now, True) if due else self

    def ended(self, now: float, script: bool) -> Job:
        """Return it after the end of its process. ``script``: the script is there."""
        return Job(max(now, self.started_at + THROTTLE_SECONDS) if script else NEVER, self.started_at)

    def noticed(self, now: float) -> Job:
        """Return it once launchd has noticed that the script appeared."""
        return self.ended(now, True) if not self.running and self.start_at == NEVER else self

    def kicked(self, now: float) -> Job:
        """Return it after ``kickstart``, which neither waits nor looks for the script."""
        return self if self.running else replace(self, start_at=now)
