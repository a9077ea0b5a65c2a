"""The state that a gateway takes over from another."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import socket

from reconciler.errors import Invalid
from reconciler.gateway.keys.sharing import Sharing
from reconciler.gateway.routing.pool import Pool
from reconciler.serving.addresses import parse_listen
from reconciler.serving.certificates import Certificates
from reconciler.wire.handover import NEW_RECEIVES
from reconciler.wire.prompts import QuarantinedPrompt

from .lock import Lock
from .messages import Waiting
from .predecessor import Predecessor
from .taking import Taking

log = logging.getLogger(__name__)

GROUPS_SECONDS = 5.0
"""The longest time that a gateway waits for connections to all groups before it takes over. Requests wait for the
rest."""


@dataclasses.dataclass(frozen=True, slots=True)
class Inheritance:
    """The state of the gateway before."""

    sock: socket.socket
    listen: str
    """The address as that gateway's routes had it."""
    lock: Lock | None
    prompts: tuple[QuarantinedPrompt, ...]
    predecessor: Predecessor
    hearing: asyncio.Task[None]


async def take_over(before: Taking, pool: Pool, sharing: Sharing, certificates: Certificates) -> Inheritance:
    """Take over once all groups can be asked. Raises ``Invalid`` and ``NotHandedOver``; the other one continues
    then."""
    parse_listen(before.offer.listen, pool.file.ring is not None)
    await pool.until_ready(GROUPS_SECONDS)
    routes = pool.file.current
    assert routes is not None
    certificates.follow(routes.tls)
    if certificates.wanted and certificates.context is None:  # the other one may have a good one
        raise Invalid(certificates.problem)
    handed = await asyncio.to_thread(before.take)
    predecessor = Predecessor(pool.desk)
    predecessor.restore(handed.keys, handed.requests, handed.given.now)
    sharing.process = handed.given.process
    lock = await asyncio.to_thread(before.own)
    log.info("taken over from the gateway before, with %d open requests of keys", len(handed.requests))
    connection = Waiting(before.sock, NEW_RECEIVES, before.side)
    hearing = asyncio.create_task(predecessor.run(connection), name="hear of the gateway before")
    handed.sock.setblocking(False)
    listen, prompts = handed.given.listen or before.offer.listen, handed.given.prompts
    return Inheritance(handed.sock, listen, lock, prompts, predecessor, hearing)
