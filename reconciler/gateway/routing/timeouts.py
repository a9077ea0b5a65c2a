"""Every limit of the gateway, in seconds unless the name says otherwise."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Waits and limits. The defaults are the product's; ``hold_seconds`` comes with the routes."""

    body: float = 60.0
    """The longest time for a request's body to arrive."""
    headers_after: float = 5.0
    """The time after which a stream without an event commits to status 200. Earlier errors are statuses."""
    keep_alive: float = 5.0
    """The silence of a stream before a comment is written, which also detects that the client has gone."""
    routes_idle: float = 0.25
    """Between two looks at the routes file: a revoked key must be refused, and its streams ended, within a second."""
    routes_held: float = 0.02
    """The same while a request is held: a client waits, and a look is one ``stat``."""
    hello: float = 5.0
    """The longest time for a rank to answer ``Hello``."""
    reconnect_first: float = 0.1
    reconnect_max: float = 2.0
    retry_same_backend: float = 1.0
    """The time before a request may go again to a backend that failed it."""
    withdrawn_silence: float = 10.0
    """The silence after which a backend without a route counts as lost."""
    shutdown: float = 10.0
    """The longest time for running requests to end when the gateway is stopped."""
    held_max: int = 1024
    """The most held requests; more get 503."""
    losses_max: int = 4
    """The most losses without a new token in between: the request itself may end groups."""
    attempts_max: int = 64
    """The most attempts of one request, with new tokens or without."""
