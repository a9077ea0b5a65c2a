"""What one side of a connection sends is read by the other in its order, whenever it was sent."""

from __future__ import annotations

import asyncio
import socket

from reconciler.agent.system.connection import Peer
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, Refused, to_wire
from reconciler.wire.frames import read


async def test_what_is_sent_before_the_connection_is_there_follows_the_greeting() -> None:
    ours, theirs = socket.socketpair()
    peer = Peer("agent", {}, lambda *_: None, lambda _: None, lambda _: None)
    messages = [Refused("Late", text) for text in ("one", "two", "three")]
    for message in messages[:2]:
        peer.send(message)
    await asyncio.get_running_loop().create_connection(lambda: peer, sock=ours)
    peer.send(messages[2])
    reader, writer = await asyncio.open_connection(sock=theirs)
    heard = [await read(reader) for _ in range(4)]
    assert heard == [to_wire(message) for message in (Hello("agent", SPOKEN), *messages)]
    peer.close()
    writer.close()
