"""What the cluster says of what is wrong: its events as they come, each with the moment at which it was heard."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field
from subprocess import Popen

from .faults import BY_NAME, OTHER_END, Fault

NAMED_SECONDS = 60.0
"""What is said later than that of a fault is of another."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    at: float
    """Of ``time.monotonic``."""
    object: str
    reason: str
    message: str

    def names(self, fault: Fault) -> bool:
        """Whether it is about the same machine or cable, and says what went wrong there."""
        text = f"{self.object} {self.reason} {self.message}"
        where = {fault.target, OTHER_END.get(fault.target, fault.target)} | fault.nodes
        same_place = any(re.search(rf"\b{re.escape(each)}\b", text) for each in where)
        return (
            same_place and re.search(BY_NAME[fault.kind].signs, f"{self.reason} {self.message}") is not None
        )


@dataclass(slots=True)
class Listener:
    """Reads ``reconciler events -w -o json`` until that ends."""

    process: Popen[str]
    events: list[Event] = field(default_factory=list)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._read, name="events")
        self._thread.start()

    def end(self) -> None:
        """End the command."""
        self.process.terminate()
        self._thread.join(30)
        self.process.wait(30)

    def detected(self, fault: Fault, at: float) -> Event | None:
        """The first event that names a fault of that moment."""
        return detected(self.events, fault, at)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(Event(time.monotonic(), event["object"], event["reason"], event["message"]))


def detected(events: list[Event], fault: Fault, at: float) -> Event | None:
    """The first event that names a fault of that moment."""
    return next((each for each in events if at <= each.at <= at + NAMED_SECONDS and each.names(fault)), None)
