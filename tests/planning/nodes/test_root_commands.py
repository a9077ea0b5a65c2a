"""What may run as root on a machine: what its Node allows, on the ports of its cables, with the Fabric's addresses."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.nodes.root_commands import RootCommand, needed
from tests.planning.macs import A, learn_of_port
from tests.worlds import World, node

from .test_repair import address, allow, cabled, rights

POWER = "powermetrics --samplers gpu_power,cpu_power,thermal -n 1 -i 1000"


def typed(world: World) -> list[str]:
    return [" ".join(each.argv) for each in rights(world, A)]


def test_a_mac_that_allows_nothing_may_tell_its_power_and_no_more() -> None:
    assert typed(cabled()) == [POWER]


def test_repairs_of_the_network_are_those_of_its_own_cables() -> None:
    world = cabled(network=True)
    own = address(world, A)
    assert typed(world) == [
        POWER,
        "ifconfig bridge0 deletem en3",
        "ifconfig bridge0 addm en3",
        f"ifconfig en3 inet {own} netmask 255.255.255.252",
        f"ifconfig en3 inet {own} delete",
        "ifconfig en3 inet 169.254.*.* netmask 255.255.0.0",
        "ifconfig en3 inet 169.254.*.* delete",
    ]


def test_another_address_of_the_pool_may_be_taken_away_as_long_as_a_port_has_it() -> None:
    world = cabled(network=True)
    learn_of_port(world, A, address="10.77.3.1")
    assert "ifconfig en3 inet 10.77.3.1 delete" in typed(world)
    learn_of_port(world, A, address="192.168.1.7")  # somebody else's
    assert not any("192.168" in line for line in typed(world))


@pytest.mark.parametrize(
    "interface", ["", "bridge0", "en3 inet 10.0.0.1", "en3,/bin/sh", "en3\nALL", "../en3"]
)
def test_no_word_that_a_machine_says_is_taken_for_an_interface(interface: str) -> None:
    world = cabled(network=True)
    learn_of_port(world, A, interface=interface)
    found = needed(world.seen(), A)
    assert [" ".join(each.argv) for each in found.commands] == [POWER]
    assert found.unknown == ("the interface of node-a/3 is not known",)


def test_memory_sleep_and_restarts_have_their_exact_values_and_those_that_undo_them() -> None:
    world = cabled(sleep=True, wiredLimit=True, reboot=True)
    world.manifests = [
        node(A, repair={"sleep": True, "wiredLimit": True, "reboot": True}, memory={"limit": "40GiB"})
        if each.metadata.name == A else each
        for each in world.manifests
    ]  # fmt: skip
    assert typed(world)[1:] == [
        "sysctl iogpu.wired_limit_mb=40960",
        "sysctl iogpu.wired_limit_mb=0",
        "pmset -a sleep 0 disksleep 0",
        "shutdown -r now",
    ]


@pytest.mark.parametrize(
    ("memory", "limits"), [({}, []), ({"reserve": "24GiB"}, [40960, 0]), ({"limit": "30GiB"}, [30720, 0])]
)
def test_what_the_gpu_may_wire_is_set_only_where_the_manifest_says_what_models_may_have(
    memory: dict[str, str], limits: list[int]
) -> None:
    world = cabled()
    world.manifests = [
        node(A, repair={"wiredLimit": True}, memory=memory) if each.metadata.name == A else each
        for each in world.manifests
    ]
    assert typed(world)[1:] == [f"sysctl iogpu.wired_limit_mb={limit}" for limit in limits]


def test_on_other_machines_than_macs_there_is_at_most_the_restart() -> None:
    world = cabled(network=True)
    world.system = "Linux"
    assert typed(world) == []
    allow(world, A, network=True, sleep=True, reboot=True)
    assert typed(world) == ["shutdown -r now"]


@pytest.mark.parametrize(
    ("argv", "covered"),
    [
        ("ifconfig en3 inet 169.254.7.9 delete", True),
        ("ifconfig en3 inet 169.255.7.9 delete", False),
        ("ifconfig en3 inet 169.254.7.9.1 delete", False),
        ("ifconfig en4 inet 169.254.7.9 delete", False),
        ("ifconfig en3 inet 169.254.7.9 delete up", False),
    ],
)
def test_one_command_stands_for_the_addresses_that_macos_gives(argv: str, covered: Any) -> None:
    command = RootCommand(("ifconfig", "en3", "inet", "169.254.*.*", "delete"), "")
    assert command.covers(tuple(argv.split())) is covered


@pytest.mark.parametrize(
    ("jobs", "user"),
    [
        ("deny", ""),
        ({"allow": {"paths": ["jobs/*"]}}, ""),
        ({"allow": {"paths": ["jobs/*"], "user": "jobs"}}, "jobs"),
    ],
)
def test_the_user_of_jobs_is_known_where_the_node_names_one(jobs: Any, user: str) -> None:
    world = World([node(A, jobs=jobs)])
    world.agents = {A}
    assert needed(world.seen(), A).jobs_user == user


def test_nothing_is_known_of_a_machine_that_was_not_seen_or_that_nobody_has_declared() -> None:
    world = World([node(A)])
    assert needed(world.seen(), A).unknown == ("node-a was not seen yet",)
    world.agents, world.manifests = {A}, []
    assert needed(world.seen(), A).unknown == ("node-a was not seen yet",)
