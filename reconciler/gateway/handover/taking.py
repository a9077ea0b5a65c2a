"""A new gateway's side: it asks the running one for its listening socket, its lock and its counts. It waits in a
thread."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from reconciler.wire.codec import WireError
from reconciler.wire.handover import (
    NEW_RECEIVES,
    Complete,
    CountedKey,
    Given,
    Offer,
    OpenRequest,
    Take,
    Taken,
    Yours,
)

from .lock import Inherit, Lock
from .messages import HELLO_SECONDS, SOCKET, Blocking, NotHandedOver, check_hello, hello, same_user

log = logging.getLogger(__name__)

GIVE_SECONDS = 15.0
"""The longest time for the old gateway to stop accepting and to send its counts: a store of limits may need a
second."""
M = TypeVar("M")


@dataclasses.dataclass(slots=True)
class Handed:
    """The messages of the old gateway."""

    given: Given
    sock: socket.socket
    """The listening socket."""
    keys: list[CountedKey]
    requests: list[OpenRequest]


class Taking:
    """A conversation with the gateway of a home. Close it if nothing was taken."""

    def __init__(self, home: Path, inherit: Inherit, any_port: bool) -> None:
        """Begin it. Raises ``NotHandedOver`` if no gateway answers, if it cannot hand over, or if it listens on
        another port than the routes say and ``any_port`` is False."""
        self._inherit = inherit
        self._handed: Handed | None = None
        self.sock = socket.socket(socket.AF_UNIX)
        self.side = Blocking(self.sock, NEW_RECEIVES)
        with contextlib.ExitStack() as stack, _told():
            stack.callback(self.sock.close)
            self.sock.settimeout(HELLO_SECONDS)
            self.sock.connect(str(home / SOCKET))
            if not same_user(self.sock):
                raise WireError("it belongs to another user")
            self.side.send(hello("successor"))
            check_hello(self.side.receive(HELLO_SECONDS), "gateway")
            self.offer = self._next(Offer, HELLO_SECONDS)
            if not any_port and _port(self.offer.listen) != _port(self.offer.address):
                raise WireError(f"it listens on {self.offer.address} instead of {self.offer.listen}")
            stack.pop_all()

    def close(self) -> None:
        """Leave the old gateway as it is."""
        self.sock.close()

    def take(self) -> Handed:
        """Make the old gateway stop accepting and send its counts. Raises ``NotHandedOver``; it continues then."""
        with contextlib.ExitStack() as stack, _told():
            self.side.send(Take())
            given = self._next(Given, GIVE_SECONDS)
            if not self.side.descriptors:
                raise WireError("no socket came with the message")
            sock = socket.socket(fileno=self.side.descriptors[0])
            stack.callback(sock.close)
            handed = Handed(given, sock, [], [])
            while not isinstance(said := self.side.receive(GIVE_SECONDS), Complete):
                if isinstance(said, CountedKey):
                    handed.keys.append(said)
                elif isinstance(said, OpenRequest):
                    handed.requests.append(said)
                else:
                    raise WireError(f"unexpected {type(said).__name__}")
            stack.pop_all()
        return handed

    def own(self) -> Lock | None:
        """Make the old gateway let go; return the lock, if it had one. Raises ``NotHandedOver`` if it has not let
        go."""
        with _told():
            self.side.send(Taken())
            self._next(Yours, GIVE_SECONDS)
        lock, *more = [*self.side.descriptors[1:], None]
        for descriptor in more:
            if descriptor is not None:
                os.close(descriptor)
        return None if lock is None else self._inherit(lock)

    def _next(self, kind: type[M], seconds: float) -> M:
        said: object = self.side.receive(seconds)
        if not isinstance(said, kind):
            raise WireError(f"expected {kind.__name__}, got {type(said).__name__}")
        return said


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn errors before the old gateway has let go into ``NotHandedOver``."""
    try:
        yield
    except (OSError, WireError) as error:
        raise NotHandedOver(f"the gateway that runs hands nothing over: {error}") from None


def _port(address: str) -> str:
    return address.rpartition(":")[2]
