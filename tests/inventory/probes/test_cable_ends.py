"""A cable is known where both of its ends say the same of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.inventory.probes.cable_ends import Cables
from reconciler.state import MachineFacts, NodeName, PortFacts
from tests.examples import examples
from tests.machines import joined

A, B, C = (NodeName(name) for name in ("studio-1", "studio-2", "studio-3"))
Machines = dict[NodeName, MachineFacts]


def mac(*ports: tuple[int, str, str]) -> MachineFacts:
    """Receptacles with their own domain and that at the other end."""
    return MachineFacts(
        system="Darwin",
        ports=tuple(
            PortFacts(number, connected=True, domain=own, peer_domain=peer) for number, own, peer in ports
        ),
    )


def peers(machines: Mapping[NodeName, MachineFacts]) -> dict[str, tuple[NodeName, int] | None]:
    return {
        f"{name}/{port.receptacle}": port.peer
        for name, facts in joined(machines).items()
        for port in facts.ports
    }


def test_two_ports_that_name_each_other_are_joined_each_by_its_own_cable() -> None:
    assert peers({A: mac((3, "a3", "b4"), (4, "a4", "b3")), B: mac((3, "b3", "a4"), (4, "b4", "a3"))}) == {
        f"{A}/3": (B, 4),
        f"{A}/4": (B, 3),
        f"{B}/3": (A, 4),
        f"{B}/4": (A, 3),
    }


def test_what_one_end_alone_says_may_be_old_and_is_not_believed() -> None:
    assert set(peers({A: mac((3, "a3", "b3")), B: mac((3, "b3", "c1")), C: mac((1, "c1", ""))}).values()) == {
        None
    }
    assert set(peers({A: mac((3, "a3", "elsewhere"))}).values()) == {None}


def test_a_cable_that_was_moved_leads_elsewhere_as_soon_as_both_ends_say_so() -> None:
    before = joined({A: mac((3, "a3", "b3")), B: mac((3, "b3", "a3")), C: mac((3, "c3", ""))})
    assert before[A].ports[0].peer == (B, 3)
    after = {**before, C: mac((3, "c3", "a3"))}
    assert peers(after)[f"{A}/3"] == (B, 3)
    (port,) = before[A].ports
    after[A] = replace(before[A], ports=(replace(port, peer_domain="c3"),))
    assert peers(after) == {f"{A}/3": (C, 3), f"{B}/3": None, f"{C}/3": (A, 3)}


def test_a_domain_that_two_ports_have_is_nobodys_and_a_port_that_names_itself_leads_nowhere() -> None:
    copied = {A: mac((3, "a3", "b3")), B: mac((3, "b3", "a3")), C: mac((3, "b3", "a3"))}
    assert set(peers(copied).values()) == {None}
    assert set(peers({A: mac((3, "a3", "a3"))}).values()) == {None}


def test_machines_of_which_nothing_new_is_learnt_are_the_same_as_before() -> None:
    unchanged = MachineFacts(ports=(PortFacts(3, peer=(B, 3)),))
    assert joined({A: unchanged})[A] is unchanged
    cables = Cables()
    cables.learn(A, mac((3, "a3", "b3")))
    known = cables.learn(B, mac((3, "b3", "a3")))
    assert known.keys() == {A, B}
    assert cables.learn(A, known[A]) == {A: known[A]}
    assert cables.learn(A, known[A])[A] is known[A]
    assert cables.learn(C, mac((3, "c3", ""))).keys() == {C}


# --- as if all machines were looked at each time -----------------------------------------------------

NAMES = tuple(NodeName(name) for name in "abcd")
DOMAINS = st.sampled_from(["", "p", "q", "r", "s"])
FACTS = st.lists(st.tuples(DOMAINS, DOMAINS), max_size=3).map(
    lambda ports: mac(*((number, *port) for number, port in enumerate(ports)))
)
REPORTS = st.tuples(st.sampled_from(NAMES), st.one_of(st.none(), FACTS))
"""A machine and its facts; None where they are void, because it was restarted or is watched no more."""


def as_seen(machines: Machines) -> dict[tuple[NodeName, int], tuple[NodeName, int] | None]:
    """Where each port leads, by looking at all of them."""
    ports = {(name, port.receptacle): port for name in machines for port in machines[name].ports}

    def peer(port: PortFacts) -> tuple[NodeName, int] | None:
        there = [end for end, other in ports.items() if port.peer_domain and other.domain == port.peer_domain]
        here = [end for end, other in ports.items() if other.domain == port.domain]
        if len(there) != 1 or len(here) != 1 or port.domain == port.peer_domain:
            return None
        return there[0] if ports[there[0]].peer_domain == port.domain else None

    return {end: peer(port) if port.domain else None for end, port in ports.items()}


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(REPORTS, max_size=12))
def test_what_one_machine_tells_changes_what_looking_at_all_of_them_would(
    reports: list[tuple[NodeName, MachineFacts | None]],
) -> None:
    cables, told, known = Cables(), Machines(), Machines()
    for name, facts in [*reports, (NodeName("last"), MachineFacts())]:
        if facts is None:
            cables.forget(name)
            told.pop(name, None)
            known.pop(name, None)
            continue
        told[name] = facts
        before = dict(known)
        found = cables.learn(name, facts)
        known |= found
        assert all(known[each] != before[each] for each in found.keys() - {name})
        ends = {(each, port.receptacle): port.peer for each in known for port in known[each].ports}
        assert ends == as_seen(told)
