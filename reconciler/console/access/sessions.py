"""Who is logged in: sessions, kept in memory alone. A console that is started anew knows none, and asks for keys again."""

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
"""How long a login lasts: a working day."""
SESSIONS_MAX = 1000
"""Of one more, the oldest ends."""


@dataclass(eq=False, slots=True)
class Session:
    """A secret that was shown, and what it is used for now."""

    hash: str
    secret: str
    ends: float
    """In seconds since the Unix epoch."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nothing may be done with it any more; what still runs then ends."""


class Sessions:
    """Logins, by the hashes of their ids: how long it takes to look one up says nothing of the ids of others."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        """``new_id`` returns a random text that nobody can guess."""
        self._new_id = new_id
        self._known: dict[str, Session] = {}
        self._used: dict[Session, int] = {}
        """Sessions with requests that run, and how many. Those that a program sends with its key are no logins."""

    def begin(self, admitted: Admitted, secret: str, now: float) -> str:
        """Log a secret in. Returns the id for its cookie."""
        while len(self._known) >= SESSIONS_MAX:
            self.end(next(iter(self._known)))
        id = self._new_id()
        self._known[hash_of(id)] = Session(admitted.hash, secret, now + SESSION_SECONDS)
        return id

    def find(self, id: str, now: float) -> Session | None:
        """Return the session with an id; None where there is none, or none any more."""
        session = self._known.get(hash_of(id))
        return session if session is not None and not _is_over(session, now) else None

    def log_out(self, id: str) -> None:
        """End the session with an id, and what runs in it."""
        self.end(hash_of(id))

    @contextmanager
    def used(self, session: Session) -> Iterator[None]:
        """While a request runs: it ends when its session does."""
        self._used[session] = self._used.get(session, 0) + 1
        try:
            yield
        finally:
            self._used[session] -= 1
            if not self._used[session]:
                del self._used[session]

    def look(self, standing: Callable[[str], Admitted | Refusal], now: float) -> None:
        """End the sessions whose time is over, and those whose secrets open nothing any more. ``standing``: what a secret's
        hash opens now."""
        for hashed, session in tuple(self._known.items()):
            if _is_over(session, now) or isinstance(standing(session.hash), Refusal):
                self.end(hashed)
        for session in tuple(self._used):
            if _is_over(session, now) or isinstance(standing(session.hash), Refusal):
                session.over.set()

    def end(self, hashed: str) -> None:
        """End a session."""
        session = self._known.pop(hashed, None)
        if session is not None:
            session.over.set()


def _is_over(session: Session, now: float) -> bool:
    """Return whether the time of a session is over; that of a program with its key never is."""
    return session.ends != math.inf and not seconds_left(session.ends, now, SESSION_SECONDS)
