"""Every bound of the gateway, in seconds unless its name says otherwise."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Waits and limits. The defaults are the product's; ``hold_seconds`` comes with the routes."""

    body: float = 60.0
    """For a request's body to arrive."""
    headers_after: float = 5.0
    """A stream that still waits for its first event commits to status 200 then; before, faults are statuses."""
    keep_alive: float = 5.0
    """Silence on a stream before a comment is written: it also finds out that the client has gone."""
    routes_idle: float = 1.0
    """Between looks at the routes file."""
    routes_held: float = 0.02
    """The same while a request is held: somebody waits, and a look is one ``stat``."""
    hello: float = 5.0
    """For a rank to answer ``Hello``."""
    reconnect_first: float = 0.1
    reconnect_max: float = 2.0
    retry_same_backend: float = 1.0
    """Before a request goes again to a backend that failed it."""
    withdrawn_silence: float = 10.0
    """A backend that is no longer routed to and says nothing for so long is taken for lost."""
    shutdown: float = 10.0
    """For running requests when the gateway is stopped."""
    held_max: int = 1024
    """Requests held at a time; more get 503."""
    losses_max: int = 4
    """Losses of a backend without a new token in between: such a request may itself be what kills groups."""
    attempts_max: int = 64
    """Backends that one request may be sent to, tokens or not."""
