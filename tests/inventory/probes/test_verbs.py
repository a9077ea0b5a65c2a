"""Drivers write the same GID in several ways."""

from __future__ import annotations

import pytest

from reconciler.inventory.probes.verbs import VerbsPort, verbs_ports
from reconciler.wire.tools import Ending, ToolSaid

LINK_LOCAL = "fe80:0:0:0:1:2:3:4"


@pytest.mark.parametrize("mapped", ["::ffff:10.0.0.1", "::FFFF:10.0.0.1", "::Ffff:a00:1", "::FFFF:A00:1"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_gid_for_an_ipv4_address_is_known_in_either_case(mapped: str, index: int) -> None:
    gids = [LINK_LOCAL, LINK_LOCAL.upper()]
    gids[index] = mapped
    rows = "".join(f"\t\t\tGID[{at:3}]:\t\t{gid}\n" for at, gid in enumerate(gids))
    text = f"hca_id:\trdma_en2\n\t\tport:\t1\n\t\t\tstate:\t\tPORT_ACTIVE (4)\n{rows}"

    ports = verbs_ports(ToolSaid(Ending.ENDED, 0, text))

    assert isinstance(ports, tuple)
    (port,) = ports
    assert isinstance(port, VerbsPort)
    assert (port.up, port.mapped_gid, port.mapped_index) == (True, True, index)


@pytest.mark.parametrize(
    ("state", "width", "speed", "gbps"),
    [
        ("PORT_ACTIVE (4)", "8X (4)", "10.0 Gbps (4)", 80),
        ("PORT_ACTIVE (4)", "4X (2)", "10.0 Gbps (4)", 40),
        ("PORT_DOWN (1)", "8X (4)", "10.0 Gbps (4)", None),
        ("PORT_NEW (9)", "8X (4)", "10.0 Gbps (4)", None),
        ("PORT_ACTIVE (4)", "8X (2)", "10.0 Gbps (4)", None),
        ("PORT_ACTIVE (4)", "8X", "10.0 Gbps (4)", None),
        ("PORT_ACTIVE (4)", "invalid width (0)", "10.0 Gbps (4)", None),
        ("PORT_ACTIVE (4)", "12X (8)", "10.0 Gbps (4)", None),
        ("PORT_ACTIVE (4)", "8X (4)", "10.0 Gbps (8)", None),
        ("PORT_ACTIVE (4)", "8X (4)", "20.0 Gbps (4)", None),
        ("PORT_ACTIVE (4)", "8X (4)", "invalid speed (0)", None),
        ("PORT_ACTIVE (4)", "8X (4)\n\t\t\tactive_width:\t\t4X (2)", "10.0 Gbps (4)", None),
    ],
)
def test_the_speed_of_a_link_is_known_only_by_widths_that_macs_print(
    state: str, width: str, speed: str, gbps: int | None
) -> None:
    text = (
        f"hca_id:\trdma_en2\n\t\tport:\t1\n\t\t\tstate:\t\t\t{state}\n\t\t\tactive_width:\t\t{width}\n"
        f"\t\t\tactive_speed:\t\t{speed}\n"
    )
    found = verbs_ports(ToolSaid(Ending.ENDED, 0, text))
    assert isinstance(found, tuple)
    assert found[0].gbps == gbps
