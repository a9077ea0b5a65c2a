"""A cable is known where both of its ends say the same of it."""

from __future__ import annotations

from dataclasses import replace

from reconciler.inventory.probes.cable_ends import joined
from reconciler.state import MachineFacts, NodeName, PortFacts

A, B, C = (NodeName(name) for name in ("studio-1", "studio-2", "studio-3"))


def mac(*ports: tuple[int, str, str]) -> MachineFacts:
    """Receptacles with their own domain and that at the other end."""
    return MachineFacts(
        system="Darwin",
        ports=tuple(
            PortFacts(number, connected=True, domain=own, peer_domain=peer) for number, own, peer in ports
        ),
    )


def peers(machines: dict[NodeName, MachineFacts]) -> dict[str, tuple[NodeName, int] | None]:
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
    known = joined({A: mac((3, "a3", "b3")), B: mac((3, "b3", "a3"))})
    assert all(joined(known)[name] is facts for name, facts in known.items())
