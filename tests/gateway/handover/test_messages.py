"""What goes over the socket between two gateways: long messages, and descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

from reconciler.gateway.handover.messages import Blocking, Waiting
from reconciler.wire.codec import WireError
from reconciler.wire.frames import encode
from reconciler.wire.handover import NEW_RECEIVES, OLD_RECEIVES, Given
from reconciler.wire.prompts import QuarantinedPrompt

LONG = Given("p", 1.0, (QuarantinedPrompt("llama", "0" * 64, "x" * 1_000_000, "", (), 1.0, 2.0),))
"""Longer than what the system buffers of a socket."""


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def descriptors() -> set[int]:
    """Those of this process that are open."""
    return {number for number in range(256) if _is_open(number)}


def _is_open(number: int) -> bool:
    with contextlib.suppress(OSError):
        os.fstat(number)
        return True
    return False


async def test_a_message_with_descriptors_may_be_longer_than_what_the_system_buffers(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = pair
    heard = Blocking(other, NEW_RECEIVES)
    hearing = asyncio.create_task(asyncio.to_thread(heard.receive, 5.0))
    await Waiting(one, OLD_RECEIVES).send_with([0], LONG)
    assert await hearing == LONG
    (descriptor,) = heard.descriptors
    os.close(descriptor)


def test_no_child_gets_a_descriptor_that_came(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    socket.send_fds(one, [encode({"type": "yours"})], [one.fileno()])
    heard = Blocking(other, NEW_RECEIVES)
    heard.receive(5.0)
    (descriptor,) = heard.descriptors
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


def test_of_descriptors_of_which_some_were_cut_off_none_is_kept(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = pair
    socket.send_fds(one, [encode({"type": "yours"})], [one.fileno()] * 9)
    before = descriptors()
    heard = Blocking(other, NEW_RECEIVES)
    with pytest.raises(WireError, match="more descriptors"):
        heard.receive(5.0)
    assert heard.descriptors == []
    assert descriptors() == before
