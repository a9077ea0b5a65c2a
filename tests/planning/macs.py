"""Worlds of Macs with RDMA, joined by Thunderbolt 5 cables, in which every transport is available."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.planning.transport.link_addresses import all_addresses
from reconciler.resources import End
from reconciler.resources.node import Repair
from reconciler.state import MachineFacts, NodeName, PortFacts, Route
from tests.worlds import World, deployment, fabric, model, node, two_nodes

A, B, C = NodeName("node-a"), NodeName("node-b"), NodeName("node-c")


def port(receptacle: int, peer: tuple[NodeName, int], address: str) -> PortFacts:
    return PortFacts(
        receptacle, f"en{receptacle}", f"rdma_en{receptacle}", connected=True, peer=peer, gbps=80, active=True,
        verbs_up=True, bridged=False, address=address, mapped_gid=True, gid_index=1,
    )  # fmt: skip


def mac(*ports: PortFacts) -> MachineFacts:
    return MachineFacts(
        boot_id="boot", system="Darwin", version=(26, 3), jaccl=True, rdma_enabled=True, ports=ports,
        verbs_answer=True, protection_domains=0, wired_excess_bytes=0, launch_context=True, panics=0,
        wired_limit_bytes=0, working_set_bytes=48 * 2**30,
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


def three_macs() -> World:
    """The same group, with a third Mac that is joined to both, and everything allowed that repairs a machine."""
    links = [(End(A, 3), End(B, 4)), (End(A, 4), End(C, 3)), (End(B, 3), End(C, 4))]
    nodes = [node(name, repair=Repair(network=True, reboot=True)) for name in (A, B, C)]
    cables = fabric("studios", *((str(one), str(other)) for one, other in links), pool="10.77.0.0/16")
    world = World([*nodes, model(), deployment(), cables])
    world.system = "Darwin"
    addresses = all_addresses(world.desired())
    ports: dict[NodeName, list[PortFacts]] = {A: [], B: [], C: []}
    for one, other in links:
        for end, peer in ((one, other), (other, one)):
            there = (NodeName(peer.node), peer.receptacle)
            ports[NodeName(end.node)].append(port(end.receptacle, there, str(addresses[end].ip)))
    routes = (Route("192.168.1.0/24", "en0"),)
    world.facts = {
        name: replace(mac(*found), routes=routes, filevault=False) for name, found in ports.items()
    }
    world.settle()
    world.history.clear()
    return world


def learn(world: World, name: NodeName, **facts: Any) -> None:
    """A probe tells something else of a machine."""
    world.facts[name] = replace(world.facts[name], **facts)


def learn_of_port(world: World, name: NodeName, **facts: Any) -> None:
    """A probe tells something else of its port that leads to the other machine of the group."""
    one, *others = world.facts[name].ports
    learn(world, name, ports=(replace(one, **facts), *others))
