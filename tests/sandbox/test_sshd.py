"""The SSH server of an emulated machine, by itself."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import asyncssh
import pytest

from reconciler.sandbox.places import Place
from reconciler.sandbox.sshd import LOOPBACK, Sshd
from reconciler.sandbox.world.state import Machine


@pytest.mark.second_tier
@pytest.mark.parametrize("steps", range(12))
async def test_an_end_at_any_step_of_a_connections_beginning_leaves_no_socket_open(
    tmp_path: Path, steps: int
) -> None:
    machine = cast(Machine, SimpleNamespace(lan=LOOPBACK))
    place = Place("n1", tmp_path)
    place.host_key.parent.mkdir(parents=True)
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(place.host_key))
    server = Sshd(place, lambda: machine)
    port = await server.start()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        for _ in range(steps):
            await asyncio.sleep(0)
        await server.stop()
        writer.transport.abort()
        await asyncio.sleep(0.01)
        gc.collect()
    assert [str(warning.message) for warning in seen] == []
