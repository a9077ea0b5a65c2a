"""Every limit of the gateway, in seconds unless the name says otherwise."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Waits and limits. The defaults are the product's; ``hold_seconds`` comes with the routes."""

    body: float = 60.0
    """How long a request's body may take to arrive."""
    headers_after: float = 5.0
    """When a stream without any event yet commits to status 200. Errors before that are statuses."""
    keep_alive: float = 5.0
    """How long a stream is silent before a comment is written, which also detects that the client has gone."""
    routes_idle: float = 0.25
    """Between two looks at the routes file: a key that is revoked is to be refused, and its streams ended, within a
    second."""
    routes_held: float = 0.02
    """The same while a request is held: a client waits, and a look is one ``stat``."""
    hello: float = 5.0
    """How long a rank may take to answer ``Hello``."""
    reconnect_first: float = 0.1
    reconnect_max: float = 2.0
    retry_same_backend: float = 1.0
    """Before a request goes to a backend again that failed it."""
    withdrawn_silence: float = 10.0
    """A backend that is no longer routed to and is silent for so long counts as lost."""
    shutdown: float = 10.0
    """How long running requests may go on when the gateway is stopped."""
    held_max: int = 1024
    """The most requests that are held at a time; more get 503."""
    losses_max: int = 4
    """The most losses without a new token in between: the request itself may be what ends groups."""
    attempts_max: int = 64
    """The most attempts of one request, with new tokens or without."""
