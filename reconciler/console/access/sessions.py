"""Sessions of logins, kept only in memory. A new console knows none, and asks for keys again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reconciler.wire.clock import seconds_left
from reconciler.wire.keys import hash_of

from .rights import Admitted, Refusal

SESSION_SECONDS = 12 * 3600.0
"""Length of a login: a working day."""
SESSIONS_MAX = 1000
"""Most logins at a time: for one more, the oldest ends."""


@dataclass(eq=False, slots=True)
class Session:
    """A secret that was shown, with the end of its time."""

    hash: str
    secret: str
    ends: float
    """In seconds since the Unix epoch."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it may no longer be used; requests that still run then end."""


class Sessions:
    """Logins, by the hashes of their ids: the time of a search tells nothing about the ids of others."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        """``new_id`` returns a random text that nobody can guess."""
        self._new_id = new_id
        self._known: dict[str, Session] = {}
        self._used: dict[Session, int] = {}
        """Sessions with running requests, and the number of these. A program that sends its key has a session without login."""

    def begin(self, admitted: Admitted, secret: str, now: float) -> str:
        """Begin a session for a secret. Returns the id for its cookie."""
        while len(self._known) >= SESSIONS_MAX:
            self.end(next(iter(self._known)))
        id = self._new_id()
        self._known[hash_of(id)] = Session(admitted.hash, secret, now + SESSION_SECONDS)
        return id

    def find(self, id: str, now: float) -> Session | None:
        """Return the session with an id; None if there is none, or its time is over."""
        session = self._known.get(hash_of(id))
        return session if session is not None and not _is_over(session, now) else None

    def log_out(self, id: str) -> None:
        """End the session with an id, and its running requests."""
        self.end(hash_of(id))

    @contextmanager
    def used(self, session: Session) -> Iterator[None]:
        """Note that a request runs, for the length of the block: it ends when its session does."""
        self._used[session] = self._used.get(session, 0) + 1
        try:
            yield
        finally:
            self._used[session] -= 1
            if not self._used[session]:
                del self._used[session]

    def look(self, standing: Callable[[str], Admitted | Refusal], now: float) -> None:
        """End the sessions whose time is over, and those whose secrets no longer open anything. ``standing`` returns the right
        of a secret's hash now."""
        for hashed, session in tuple(self._known.items()):
            if _is_over(session, now) or isinstance(standing(session.hash), Refusal):
                self.end(hashed)
        for session in tuple(self._used):
            if _is_over(session, now) or isinstance(standing(session.hash), Refusal):
                session.over.set()

    def end(self, hashed: str) -> None:
        session = self._known.pop(hashed, None)
        if session is not None:
            session.over.set()


def _is_over(session: Session, now: float) -> bool:
    """Return whether the time of a session is over; the session of a program that sends its key has no end."""
    return session.ends != math.inf and not seconds_left(session.ends, now, SESSION_SECONDS)
