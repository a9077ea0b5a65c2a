"""What the tools of a Mac tell is shown; what they do not tell is not, except for why."""

from __future__ import annotations

from reconciler.state import MachineFacts, NodeName, PortFacts
from reconciler.status.machine import as_json


def test_of_a_machine_without_probes_nothing_is_said() -> None:
    assert as_json(MachineFacts(boot_id="boot", system="Linux")) == {}


def test_a_mac_is_shown_with_its_ports_and_without_what_is_not_known() -> None:
    port = PortFacts(
        3, "en3", "rdma_en3", connected=True, peer=(NodeName("studio-2"), 4), gbps=80, active=True, verbs_up=False,
        bridged=False, address="", domain="0000-1", peer_domain="0000-2",
    )  # fmt: skip
    facts = MachineFacts(
        system="Darwin", version=(26, 3), rdma_enabled=False, panics=0, ports=(port, PortFacts(4)), gpu_watts=8.5,
        unknown=(("RDMA ports", "ibv_devinfo did not end within 5 s"),),
    )  # fmt: skip
    assert as_json(facts) == {
        "macOS": "26.3",
        "rdmaEnabled": False,
        "panicsLastHour": 0,
        "ports": [
            {
                "receptacle": 3, "interface": "en3", "device": "rdma_en3", "connected": True, "peer": "studio-2/4",
                "gbps": 80, "interfaceActive": True, "rdmaUp": False, "bridged": False, "address": "none",
            },
            {"receptacle": 4},
        ],
        "notKnown": {"RDMA ports": "ibv_devinfo did not end within 5 s"},
    }  # fmt: skip
