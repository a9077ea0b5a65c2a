"""Ranks on another machine: through a real SSH server, with a key that is good for nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sshd import Sshd, sshd

from .conftest import HELLO, Cluster, Start, free_port
from .rank_double import story, told


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Sshd]:
    async with sshd(tmp_path / "sshd", free_port()) as server:
        yield server


async def ask(cluster: Cluster) -> str:
    reply = await cluster.client.chat.completions.create(model="llama", messages=HELLO)
    return reply.choices[0].message.content or ""


async def test_many_requests_at_once_go_over_one_channel_of_one_connection(
    start: Start, machine: Sshd
) -> None:
    cluster = await start(story(20, pause=0.01), through=machine)
    answers = await asyncio.gather(*(ask(cluster) for _ in range(50)))
    assert set(answers) == {told(20)}
    assert cluster.ranks[0].connections == 1
