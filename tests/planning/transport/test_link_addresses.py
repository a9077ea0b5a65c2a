"""Addresses of links: each its own /30, the same however often and in whatever order the links are written."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning.transport import link_addresses
from reconciler.resources import End, Link, link_between
from reconciler.state import Desired
from tests.worlds import fabric

POOL = IPv4Network("10.77.0.0/16")
ENDS = st.builds(End, st.sampled_from([f"studio-{n}" for n in range(1, 9)]), st.integers(1, 9))
LINKS = st.lists(
    st.tuples(ENDS, ENDS).filter(lambda pair: pair[0].node != pair[1].node).map(lambda pair: link_between(*pair)),
    max_size=32,
)  # fmt: skip


@given(LINKS, st.sampled_from([16, 22, 25]))
def test_each_link_has_a_network_of_its_own_within_the_pool(links: list[Link], prefix: int) -> None:
    pool = IPv4Network(f"10.77.0.0/{prefix}")
    found = link_addresses.networks(pool, links)
    assert set(found) == set(links)
    assert len(set(found.values())) == len(set(links))
    assert all(network.prefixlen == 30 and network.subnet_of(pool) for network in found.values())


@given(LINKS.flatmap(lambda links: st.tuples(st.just(links), st.permutations(links))))
def test_the_order_of_links_makes_no_difference(both: tuple[list[Link], list[Link]]) -> None:
    one, other = both
    assert link_addresses.networks(POOL, one) == link_addresses.networks(POOL, other)


@given(LINKS, st.tuples(ENDS, ENDS).filter(lambda pair: pair[0].node != pair[1].node))
def test_a_link_that_comes_or_goes_moves_none_that_does_not_share_its_place(
    links: list[Link], pair: tuple[End, End]
) -> None:
    more = link_between(*pair)
    alone = {link: link_addresses.networks(POOL, [link])[link] for link in [*links, more]}
    before, after = (link_addresses.networks(POOL, each) for each in (links, [*links, more]))
    moved = [link for link in before if before[link] != after[link]]
    places = list(alone.values())
    assert all(places.count(alone[link]) > 1 or alone[more] == before[link] for link in moved)


def test_of_links_with_one_place_the_later_takes_the_next() -> None:
    pool = IPv4Network("10.77.0.0/29")
    links = [link_between(End("a", 1), End("b", n)) for n in range(1, 9)]
    first = link_addresses.networks(pool, links[:1])[links[0]]
    same = next(each for each in links[1:] if link_addresses.networks(pool, [each])[each] == first)
    found = link_addresses.networks(pool, [same, links[0]])
    assert found[links[0]] == first
    assert found[same] != first


def test_a_pool_without_room_is_refused() -> None:
    links = [link_between(End("a", n), End("b", n)) for n in (1, 2, 3)]
    with pytest.raises(ValueError, match="room for 2 links, and there are 3"):
        link_addresses.networks(IPv4Network("10.77.0.0/29"), links)


def test_the_ends_of_a_link_are_neighbours_in_its_network() -> None:
    studios = fabric("studios", ("studio-2/3", "studio-1/4"), pool=str(POOL))
    found = link_addresses.fabric_addresses(studios)
    one, other = found[End("studio-1", 4)], found[End("studio-2", 3)]
    assert one.network == other.network
    assert (str(one), str(other)) == ("10.77.223.113/30", "10.77.223.114/30")
    assert str(one.netmask) == "255.255.255.252"


def test_fabrics_without_a_pool_give_no_address() -> None:
    fabrics = fabric("a", ("x/1", "y/1"), pool="10.77.0.0/16"), fabric("b", ("x/2", "y/2"))
    assert set(link_addresses.all_addresses(Desired.of("r", fabrics))) == {End("x", 1), End("y", 1)}
