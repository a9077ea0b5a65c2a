"""Which machine a node is, where several may be the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from reconciler.remote.nodes.pool import MachinePool
from reconciler.resources import LOCAL, Access, SshAccess
from reconciler.state import NodeName

KEYS = [f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA{letter * 42}" for letter in "ab"]


@dataclass
class Noted:
    """A machine that notes from whom the gateway's key was taken."""

    name: NodeName
    withdrawn: list[NodeName] = field(default_factory=list)
    reconnected: bool = False

    async def reconnect(self) -> None:
        self.reconnected = True

    async def disable_service(self) -> None:
        """It starts nothing by itself."""

    async def withdraw(self) -> None:
        self.withdrawn.append(self.name)


def far(key: str, **more: Any) -> Access:
    return Access(ssh=SshAccess(**{"host": "a", "user": "me", "hostKey": key, **more}))


@pytest.mark.parametrize(
    ("other", "taken"),
    [
        (far(KEYS[0], host="b"), []),
        (far(KEYS[1]), ["one"]),
        (far(KEYS[0], user="you"), ["one"]),
        (LOCAL, ["one"]),
    ],
    ids=["the same by another name", "another machine", "another user", "this machine"],
)
async def test_the_gateway_keeps_its_route_to_a_machine_that_is_also_another_node(
    other: Access, taken: list[str]
) -> None:
    found: list[NodeName] = []
    machines = MachinePool(lambda name, _: Noted(name, found))  # type: ignore[arg-type, return-value]
    machines.reach({NodeName("one"): far(KEYS[0]), NodeName("two"): other})
    await machines.withdraw(NodeName("one"))
    assert found == taken


async def test_of_all_machines_that_of_the_node_is_reached_over_a_new_connection() -> None:
    made: dict[NodeName, Noted] = {}
    machines = MachinePool(lambda name, _: made.setdefault(name, Noted(name)))  # type: ignore[arg-type, return-value]
    one, two = NodeName("one"), NodeName("two")
    machines.reach({one: far(KEYS[0]), two: far(KEYS[1])})
    for name in (one, two):
        await machines.withdraw(name)
    await machines.reconnect(NodeName("unknown"))
    await machines.reconnect(one)
    assert {name for name, machine in made.items() if machine.reconnected} == {one}
