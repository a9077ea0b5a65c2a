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
