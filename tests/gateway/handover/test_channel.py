"""The connection between two gateways: long messages, and descriptors."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.gateway.handover.channel import SOCKET, Channel, listening_at
from reconciler.wire.codec import WireError
from reconciler.wire.handover import NEW_RECEIVES, OLD_RECEIVES, Drain, Given, Report
from reconciler.wire.prompts import QuarantinedPrompt

GIVEN = Given("127.0.0.1:8400", 1, 0)
LONG = Report((), (QuarantinedPrompt("llama", "0" * 64, "x" * 1_000_000, "", (), 1.0, 2.0),))
"""Longer than what the system buffers of a socket."""


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Channel, Channel]]:
    """The old gateway's side, and the new one's."""
    one, other = socket.socketpair()
    old, new = Channel(one, OLD_RECEIVES), Channel(other, NEW_RECEIVES)
    yield old, new
    old.close()
    new.close()


def descriptors() -> set[Path]:
    """Those of this process that are open."""
    return set(Path("/dev/fd").iterdir())


async def test_messages_that_come_with_descriptors_may_be_longer_than_what_the_system_buffers(
    pair: tuple[Channel, Channel],
) -> None:
    old, new = pair
    sending = asyncio.create_task(old.send(GIVEN, LONG, descriptors=[0, 1]))
    assert await new.receive(Given) == GIVEN
    assert await new.receive(Report) == LONG
    await sending
    assert len(new.descriptors) == 2


async def test_no_child_gets_a_descriptor_that_came_and_none_stays_open(
    pair: tuple[Channel, Channel],
) -> None:
    old, new = pair
    before = descriptors()
    await old.send(GIVEN, descriptors=[old.sock.fileno()])
    await new.receive(Given)
    (descriptor,) = new.descriptors
    assert not os.get_inheritable(descriptor)
    assert len(descriptors()) == len(before) + 1
    new.close()
    assert len(descriptors()) == len(before) - 1


async def test_descriptors_that_came_without_the_rest_do_not_stay_open(
    pair: tuple[Channel, Channel],
) -> None:
    old, new = pair
    before = descriptors()
    await old.send(GIVEN, descriptors=[old.sock.fileno()] * 9)
    with pytest.raises(WireError, match="more descriptors"):
        await new.receive(Given)
    new.close()
    assert len(descriptors()) == len(before) - 1


async def test_a_message_that_is_not_expected_is_an_error(pair: tuple[Channel, Channel]) -> None:
    old, new = pair
    await new.send(Drain())
    with pytest.raises(WireError, match="unexpected Drain"):
        await old.receive(Given)


@pytest.mark.parametrize("there", ["", "a file", "a socket"])
def test_another_gateway_of_the_same_user_alone_may_connect(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the system bounds the length of such a path
    path = Path(SOCKET)
    if there == "a file":
        path.touch(0o666)
    elif there == "a socket":
        listening_at(path).close()
        path.chmod(0o666)
    with listening_at(path):
        assert path.is_socket()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
