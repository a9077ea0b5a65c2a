"""Decides which connections of clients may stay: with bounds in all, for each address, and in time. Pure: no clock, no
socket.

If there are too many, the oldest one without a request is closed; those with an unfinished head go before idle ones.
So a client that sends its request at once is let in, however many others send nothing.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from enum import Enum
from typing import Protocol

FEW = 1024
"""With fewer descriptors, a page that dozens of people have open may find no connection left."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The most connections, and the seconds that each may do nothing."""

    in_all: int
    of_one: int
    """The most from one address: seven eighths of all. Programs on this machine share an address, and so do all users
    of a proxy or a web page. A smaller number would refuse them."""
    leaving: int
    """The most that were refused and have not closed their side yet."""
    head_seconds: float = 10.0
    """From the connection, or the first byte of a later request, to the end of the head."""
    idle_seconds: float = 75.0
    """Between two requests on one connection."""
    leaving_seconds: float = 1.0
    """The time that a refused client has to read the reason."""
    unread_seconds: float = 5.0
    """A request gives way to others when its client has read nothing of the answer for this long."""
    unread_end_seconds: float = 60.0
    """The connection is closed when its client has read nothing for this long."""

    @classmethod
    def of(cls, descriptors: int) -> ConnectionLimits:
        """Return the limits of a process that may have ``descriptors`` descriptors.

        An eighth of them, and at least 64, is kept for groups, files, and connections that are being refused.
        """
        reserve = min(max(64, descriptors // 8), 2048)
        in_all = max(16, descriptors - reserve)
        return cls(in_all, in_all - in_all // 8, reserve // 4)


def shortage(process: str, count: int) -> str:
    """Return the effect of so few descriptors of a process in a sentence; empty if there are enough."""
    if count >= FEW:
        return ""
    most = ConnectionLimits.of(count).in_all
    return f"{process} may have only {count} descriptors, so it takes at most {most} connections"


class Stage(Enum):
    # The library's hash is written in Python, and each request asks for it a dozen times.
    __hash__ = object.__hash__

    UNFINISHED = "unfinished"
    """Its next request has no complete head yet, or its handshake is not over."""
    BUSY = "busy"
    """A request of it is being answered."""
    IDLE = "idle"
    """Its last request was answered, and there is no further one."""
    LEAVING = "leaving"
    """It was refused, and counts no longer."""


class End(Enum):
    """Why the server ended a connection."""

    REFUSED = "refused"
    """There were too many, and all of them had requests."""
    DISPLACED = "displaced"
    """It had no request, and made room for another."""
    HANDSHAKE = "handshake"
    """It did not agree on TLS: it spoke something else, or trusts no such certificate."""
    SLOW_HEAD = "slow_head"
    LARGE_HEAD = "large_head"
    IDLE = "idle"
    UNREAD = "unread"
    """Its client did not read the answer."""


class Connection(Protocol):
    @property
    def address(self) -> str:
        """Return the client's address, without its port."""

    def end(self) -> None:
        """Close at once."""

    def expire(self, stage: Stage) -> None:
        """Close, after too long in a stage."""


class ConnectionLimiter:
    """Counts connections by stage and address. Times are in seconds of one monotonic clock."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.ended: Counter[End] = Counter()
        self.last_answers = False
        """True if each connection's next answer is its last and says so, because another process has the listening
        socket."""
        self._since: dict[Stage, dict[Connection, float]] = {stage: {} for stage in Stage}
        """When each connection entered its stage; the oldest first."""
        self._stage: dict[Connection, Stage] = {}
        self._of_address: Counter[str] = Counter()

    def count(self, stage: Stage) -> int:
        return len(self._since[stage])

    def stage(self, connection: Connection) -> Stage | None:
        """Return the stage of a connection; None for one that is not counted."""
        return self._stage.get(connection)

    def admit(self, connection: Connection, now: float) -> bool:
        """Count a new connection. Returns False if it has to be refused because too many others have requests."""
        self._enter(connection, Stage.UNFINISHED, now)
        self._of_address[connection.address] += 1
        if self._of_address[connection.address] > self.limits.of_one:
            found = self._oldest_without_request(connection, connection.address)
        elif self._counted() > self.limits.in_all:
            found = self._oldest_without_request(connection, None)
        else:
            return True
        self.ended[End.DISPLACED if found else End.REFUSED] += 1
        if found is not None:
            self.forget(found)
            found.end()
        return found is not None

    def move(self, connection: Connection, stage: Stage, now: float) -> None:
        """Note that a connection has entered another stage."""
        before = self._stage.get(connection)
        if before is None or before is stage:
            return
        self._enter(connection, stage, now)
        if stage is Stage.LEAVING:
            self._uncount(connection)
            self._keep_few_leaving()

    def forget(self, connection: Connection) -> None:
        """Note that a connection is closed."""
        stage = self._stage.pop(connection, None)
        if stage is None:
            return
        del self._since[stage][connection]
        if stage is not Stage.LEAVING:
            self._uncount(connection)

    def overdue(self, now: float) -> list[tuple[Connection, Stage]]:
        """Return the connections whose time in their stage is over."""
        limits = self.limits
        allowed = (
            (Stage.UNFINISHED, limits.head_seconds),
            (Stage.IDLE, limits.idle_seconds),
            (Stage.LEAVING, limits.leaving_seconds),
        )
        found: list[tuple[Connection, Stage]] = []
        for stage, seconds in allowed:
            for connection, since in self._since[stage].items():
                if since + seconds > now:
                    break
                found.append((connection, stage))
        return found

    def _counted(self) -> int:
        return len(self._stage) - self.count(Stage.LEAVING)

    def _enter(self, connection: Connection, stage: Stage, now: float) -> None:
        before = self._stage.get(connection)
        if before is not None:
            del self._since[before][connection]
        self._stage[connection] = stage
        self._since[stage][connection] = now

    def _oldest_without_request(self, newcomer: Connection, address: str | None) -> Connection | None:
        """Return the connection that makes room: any, or one from the same address."""
        for stage in (Stage.UNFINISHED, Stage.IDLE):
            for connection in self._since[stage]:
                if connection is not newcomer and address in (None, connection.address):
                    return connection
        return None

    def _uncount(self, connection: Connection) -> None:
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def _keep_few_leaving(self) -> None:
        leaving = self._since[Stage.LEAVING]
        if len(leaving) > self.limits.leaving:
            oldest = next(iter(leaving))
            self.forget(oldest)
            oldest.end()
