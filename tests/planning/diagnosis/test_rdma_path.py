"""The path of RDMA over a cable: both ends are asked, and only what nobody has tested may be allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.planning.diagnosis import detectors
from reconciler.planning.diagnosis.evidence import Evidence
from reconciler.planning.diagnosis.rdma_path import UNTESTED, RdmaPath, rdma_path
from reconciler.resources import End
from reconciler.state import Contact, MachineFacts, NodeName, NodeObservation, PortFacts

A, B = NodeName("node-a"), NodeName("node-b")
FIVE, FOUR = PortFacts(9, ceiling_gbps=120), PortFacts(9, ceiling_gbps=40)
HUB = ("a hub",)


def end(gbps: int | None = 80, through: tuple[str, ...] = (), other: PortFacts | None = FIVE) -> MachineFacts:
    """A machine with one cable, and with another receptacle."""
    port = PortFacts(1, "en1", "rdma_en1", connected=True, gbps=gbps, through=through, verbs_up=False)
    return MachineFacts(rdma_enabled=True, ports=(port, *((other,) if other else ())))


CASES = [
    (end(), end(), RdmaPath.DIRECT),
    (end(120), end(120), RdmaPath.DIRECT),
    (end(None), end(None), RdmaPath.DIRECT),
    (end(40), end(40), RdmaPath.SLOW),
    (end(80), end(40), RdmaPath.SLOW),
    (end(40), end(40, other=FOUR), RdmaPath.TOO_SLOW),
    (end(40, other=None), end(40), RdmaPath.TOO_SLOW),
    (end(40), end(None), RdmaPath.TOO_SLOW),
    (end(20), end(40), RdmaPath.TOO_SLOW),
    (end(through=HUB), end(), RdmaPath.DOCKED),
    (end(), end(through=HUB), RdmaPath.DOCKED),
    (end(through=HUB), end(None), RdmaPath.DOCKED_SLOWLY),
    (end(40, HUB), end(40, HUB), RdmaPath.DOCKED_SLOWLY),
]


@pytest.mark.parametrize(("here", "there", "path"), CASES)
def test_what_both_ends_report_is_one_path(here: MachineFacts, there: MachineFacts, path: RdmaPath) -> None:
    ends = [(here, here.ports[0]), (there, there.ports[0])]
    assert rdma_path(*ends) is rdma_path(*reversed(ends)) is path


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize(("here", "there", "path"), CASES)
def test_a_refused_path_is_a_slow_link_and_over_others_the_device_must_be_up(
    here: MachineFacts, there: MachineFacts, path: RdmaPath, allowed: bool
) -> None:
    nodes = tuple(
        NodeObservation(name, Contact.REACHED, 0.0, 1, None, facts=_towards(facts, other))
        for name, facts, other in ((A, here, B), (B, there, A))
    )
    ends = frozenset((End(A, 1), End(B, 1)) if allowed else ())
    evidence = Evidence(nodes, verbs=True, cables=True, untested=ends)
    refused = path is not RdmaPath.DIRECT and not (allowed and path in UNTESTED)
    slow = detectors.slow_link(evidence)
    assert (slow is not None) is refused
    assert (detectors.rdma_port_down(evidence) is None) is refused
    if slow is not None:
        assert ("not tested" in slow.text) is (path in UNTESTED)


@pytest.mark.parametrize(
    ("ports", "known"),
    [
        ((), None),
        ((PortFacts(1),), None),
        ((PortFacts(1, gbps=40),), None),
        ((PortFacts(1, gbps=40), FOUR), False),
        ((PortFacts(1, gbps=80),), True),
        ((PortFacts(1, gbps=40), FIVE), True),
    ],
)
def test_thunderbolt_5_is_known_by_a_fast_cable_or_by_a_receptacle_without_one(
    ports: tuple[PortFacts, ...], known: bool | None
) -> None:
    assert MachineFacts(ports=ports).thunderbolt5 is known


def _towards(facts: MachineFacts, other: NodeName) -> MachineFacts:
    first, *more = facts.ports
    return replace(facts, ports=(replace(first, peer=(other, 1)), *more))
