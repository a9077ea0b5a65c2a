"""From what the tools of two Macs say to the transport that their ranks are given."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.inventory.probes import machine
from reconciler.inventory.probes.table import Readings
from reconciler.state import MachineFacts, Plan, StartRank
from reconciler.wire.tools import Ending, ToolSaid
from tests.machines import joined
from tests.planning.macs import A, B
from tests.worlds import World, two_nodes

from .cases import BY_TOOL, load
from .test_machine import MAC

SAMPLES = {f"{case.tool}/{case.name}": case.output for case in load()}

COMMON = {
    "sw_vers": "sw_vers/26_3", "rdma_ctl": "rdma_ctl/enabled", "mlx": "mlx/has_it", "vm_stat": "vm_stat/24_gib",
    "ioclasscount": "ioclasscount/none_held", "networksetup_ports": "networksetup_ports/m5_max",
    "system_profiler": "system_profiler/dock_mac_free", "ibv_devices": "ibv_devices/m5_max",
}  # fmt: skip
DOMAIN = "0000000{0}-0000-4000-8000-00000000000{0}"
OWN, PEERS = DOMAIN.format(4), DOMAIN.format(3)
PORT = """en6: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500
\tinet 10.77.0.{end} netmask 0xfffffffc broadcast 10.77.0.3
\tstatus: active
bridge0: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500
\tstatus: inactive
"""
VERBS = """hca_id:\trdma_en6
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tGID[  0]:\t\tfe80::1
\t\t\tGID[  1]:\t\t::ffff:10.77.0.{end}
"""


def tools(end: int) -> dict[str, ToolSaid]:
    """Of one of two Macs with a cable from Thunderbolt 2 to Thunderbolt 2."""
    outputs = {tool: SAMPLES[name] for tool, name in COMMON.items()}
    for tool, text in (("ifconfig", PORT), ("ibv_devinfo", VERBS)):
        outputs[tool] = ToolSaid(Ending.ENDED, 0, text.format(end=end))
    if end == 2:  # the dump of the peer is the mirror
        text = (
            outputs["system_profiler"]
            .stdout.replace(OWN, "its own")
            .replace(PEERS, OWN)
            .replace("its own", PEERS)
        )
        for idle in "89":
            text = text.replace(DOMAIN.format(idle), DOMAIN.format(idle)[::-1])
        outputs["system_profiler"] = ToolSaid(Ending.ENDED, 0, text)
    return outputs


def facts(outputs: dict[str, ToolSaid]) -> MachineFacts:
    read: dict[str, Any] = {BY_TOOL[tool].name: BY_TOOL[tool].read(each) for tool, each in outputs.items()}
    return machine.facts(Readings(read), MAC, machine.Wired(0), 0.0)


def world(**spoiled: ToolSaid) -> World:
    """A group of both that was formed as their tools say, of which the first one's may say something else."""
    made = two_nodes()
    made.system = "Darwin"
    look(made, **spoiled)
    made.settle()
    return made


def look(made: World, **spoiled: ToolSaid) -> None:
    """The probes are asked again."""
    made.facts.update(joined({A: facts({**tools(1), **spoiled}), B: facts(tools(2))}))


def rung(made: World) -> str:
    return made.groups[made.replica()].transport


def output_of(text: str, code: int = 0) -> ToolSaid:
    return ToolSaid(Ending.ENDED, code, text)


def test_two_macs_whose_tools_say_that_all_is_well_are_given_rdma_over_the_devices_of_their_cable() -> None:
    made = world()
    configs = [step.spec.config for step in made.history if isinstance(step, StartRank)]
    assert rung(made) == "jaccl"
    assert {config.devices for config in configs} == {(("", "rdma_en6"), ("rdma_en6", ""))}
    assert [address.partition(":")[0] for address in configs[0].addresses] == ["10.77.0.1", "10.77.0.2"]


@pytest.mark.parametrize(
    ("tool", "answer", "transport", "why"),
    [
        ("rdma_ctl", output_of("disabled\n"), "ring", "RDMA is disabled on node-a"),
        ("sw_vers", output_of("ProductVersion:\t\t26.1\n"), "ring", "node-a runs macOS 26.1"),
        ("mlx", output_of("jaccl False\nworking set None\n"), "ring", "MLX on node-a has no JACCL"),
        ("ibv_devices", ToolSaid(Ending.LATE), "ring", "the RDMA tools of node-a do not come back"),
        (
            "ibv_devinfo",
            output_of(VERBS.format(end=1).replace("ACTIVE (4)", "DOWN (1)")),
            "ring",
            "the link from node-a/2",
        ),
        (
            "ibv_devinfo",
            output_of("".join(VERBS.splitlines(True)[:-1])),
            "ring",
            "en6 of node-a has no IPv4-mapped GID",
        ),
        (
            "ifconfig",
            output_of(PORT.format(end=1) + "\tmember: en6 flags=3\n"),
            "ring",
            "en6 of node-a is a member",
        ),
        (
            "ifconfig",
            output_of(PORT.replace("inet ", "inet6 ")),
            "ring-lan",
            "en6 of node-a has no IPv4 address",
        ),
        ("system_profiler", SAMPLES["system_profiler/idle"], "ring-lan", "no Thunderbolt cable is known"),
        ("system_profiler", output_of(""), "ring-lan", "no Thunderbolt cable is known"),
        ("rdma_ctl", output_of("maybe\n"), "ring", "it is not known whether RDMA is enabled on node-a"),
    ],
)
def test_what_a_tool_says_decides_the_rung(tool: str, answer: ToolSaid, transport: str, why: str) -> None:
    made = world(**{tool: answer})
    assert rung(made) == transport
    assert why in made.groups[made.replica()].transport_why


def test_two_equal_usb_adapters_cost_no_group_its_rdma() -> None:
    assert rung(world(networksetup_ports=SAMPLES["networksetup_ports/two_equal_adapters"])) == "jaccl"


BROKEN = [
    output_of(""),
    output_of("\x00garbage\n"),
    output_of("", 1),
    output_of("", 139),
    ToolSaid(Ending.ENDLESS),
    ToolSaid(Ending.LATE),
]


@pytest.mark.parametrize("tool", sorted(tools(1)))
def test_a_tool_that_says_nothing_of_use_is_no_reason_to_touch_a_group_that_serves(tool: str) -> None:
    """A verbs tool that hangs is: it tells of a wedged driver, and is another test's."""
    for answer in BROKEN:
        made = world()
        if BY_TOOL[tool].soonest_seconds and answer.ending == Ending.LATE:
            continue
        look(made, **{tool: answer})
        assert made.plan() == Plan(), (tool, answer)
