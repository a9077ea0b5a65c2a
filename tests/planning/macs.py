"""Two Macs that a Thunderbolt 5 cable joins, with RDMA: worlds in which every rung of the ladder can be had."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.state import MachineFacts, NodeName, PortFacts
from tests.worlds import World, two_nodes

A, B = NodeName("node-a"), NodeName("node-b")


def port(receptacle: int, peer: tuple[NodeName, int], address: str) -> PortFacts:
    return PortFacts(
        receptacle, f"en{receptacle}", f"rdma_en{receptacle}", connected=True, peer=peer, gbps=80, active=True,
        verbs_up=True, bridged=False, address=address, mapped_gid=True,
    )  # fmt: skip


def mac(*ports: PortFacts) -> MachineFacts:
    return MachineFacts(
        boot_id="boot", system="Darwin", version=(26, 3), jaccl=True, rdma_enabled=True, ports=ports,
        verbs_answer=True, protection_domains=0, wired_excess_bytes=0, launch_context=True, panics=0,
    )  # fmt: skip


def two_macs(**spec: Any) -> World:
    """A group of two ranks that serves over RDMA."""
    world = two_nodes(**spec)
    world.system = "Darwin"
    world.facts[A] = mac(port(3, (B, 4), "10.77.0.1"))
    world.facts[B] = mac(port(4, (A, 3), "10.77.0.2"))
    world.settle()
    world.history.clear()
    return world


def learn(world: World, name: NodeName, **facts: Any) -> None:
    """A probe tells something else of a machine."""
    world.facts[name] = replace(world.facts[name], **facts)


def learn_of_port(world: World, name: NodeName, **facts: Any) -> None:
    """A probe tells something else of its port."""
    (one,) = world.facts[name].ports
    learn(world, name, ports=(replace(one, **facts),))
