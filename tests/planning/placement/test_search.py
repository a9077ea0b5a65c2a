"""Sets of nodes with room for a group, compared with trying everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, islice, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning.placement.search import (
    ORDERED_MAX,
    RINGS_MAX,
    SEEDS_MAX,
    SETS_MAX,
    FreeMemory,
    rings,
)
from reconciler.state import NodeName

HOSTS = ("h0", "h1", "h2", "h3")
NEEDS = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def names(count: int) -> tuple[NodeName, ...]:
    return tuple(NodeName(f"n{at:02}") for at in range(count))


@st.composite
def memories(draw: st.DrawFn) -> FreeMemory:
    """A few nodes, in any order, some of them on one machine."""
    count = draw(st.integers(1, 5))
    hosts = dict(
        zip(names(count), draw(st.lists(st.sampled_from(HOSTS), min_size=count, max_size=count)), strict=True)
    )
    free = {host: draw(st.integers(0, 9)) for host in HOSTS}
    return FreeMemory(tuple(draw(st.permutations(names(count)))), hosts, free)


def has_room(memory: FreeMemory, members: Sequence[NodeName], needs: Sequence[int]) -> bool:
    """The model: no machine has more ranks than fit."""
    return all(
        sum(need for name, need in zip(members, needs, strict=True) if memory.hosts[name] == host) <= free
        for host, free in memory.free.items()
    )


@given(memories(), NEEDS, st.data())
def test_nodes_are_in_an_order_that_fits_where_there_is_one(
    memory: FreeMemory, needs: tuple[int, ...], data: st.DataObject
) -> None:
    members = tuple(data.draw(st.permutations(memory.nodes)))[: len(needs)]
    needs = needs[: len(members)]
    found = memory.arranged(members, needs)
    possible = any(has_room(memory, order, needs) for order in permutations(members))
    assert (found is not None) == possible
    if found is not None:
        assert sorted(found) == sorted(members)
        assert has_room(memory, found, needs)
        assert memory.fits(found, needs)
    if has_room(memory, members, needs):
        assert found == members, "it is left as it is"
    assert memory.fits(members, needs) == has_room(memory, members, needs)


@given(memories(), NEEDS)
def test_of_few_nodes_every_set_with_room_is_a_candidate_the_preferred_nodes_first(
    memory: FreeMemory, needs: tuple[int, ...]
) -> None:
    expected = [
        frozenset(chosen)
        for chosen in combinations(memory.nodes, len(needs))
        if any(has_room(memory, order, needs) for order in permutations(chosen))
    ]
    found = list(memory.candidates(needs))
    assert [frozenset(members) for members in found] == expected
    assert all(has_room(memory, members, needs) for members in found)
    assert memory.fit(needs) == bool(expected)


@given(memories(), NEEDS)
def test_the_roomiest_machines_have_room_exactly_where_all_have(
    memory: FreeMemory, needs: tuple[int, ...]
) -> None:
    kept = memory.roomiest(len(needs))
    assert kept.fit(needs) == memory.fit(needs)
    assert set(kept.nodes) <= set(memory.nodes)
    assert len({memory.hosts[name] for name in kept.nodes}) <= len(needs)
    most = Counter(memory.hosts[name] for name in kept.nodes).values()
    assert max(most) <= len(needs)


def many(
    count: int, free: Mapping[str, int] | None = None, cables: Sequence[tuple[int, int]] = ()
) -> FreeMemory:
    """So many nodes on machines of their own."""
    all_of_them = names(count)
    ends: dict[NodeName, tuple[NodeName, ...]] = {}
    for one, other in cables:
        for end, there in ((one, other), (other, one)):
            ends[all_of_them[end]] = (*ends.get(all_of_them[end], ()), all_of_them[there])
    hosts = {name: str(name) for name in all_of_them}
    return FreeMemory(all_of_them, hosts, {**dict.fromkeys(hosts.values(), 10), **(free or {})}, ends)


@pytest.mark.parametrize(("count", "size", "sets"), [(9, 4, 126), (16, 2, 120), (128, 1, 128)])
def test_every_set_is_tried_of_as_many_nodes_as_make_so_few(count: int, size: int, sets: int) -> None:
    assert sets <= SETS_MAX
    assert len(list(many(count).candidates((1,) * size))) == sets


def test_of_many_nodes_the_preferred_ones_are_tried_and_those_that_are_cabled_to_one_another() -> None:
    assert list(many(17).candidates((1, 1))) == [names(2)]
    ring = [(3, 9), (9, 12), (12, 15), (15, 3)]
    found = list(many(17, cables=ring).candidates((1, 1, 1, 1)))
    assert found[0] == names(4)
    assert set(found[1:]) == {tuple(names(17)[at] for at in (3, 9, 12, 15))}
    assert len(found) == 1 + 4


def test_of_many_nodes_the_roomiest_are_tried_where_the_preferred_ones_have_no_room() -> None:
    roomy = {"n03": 20, "n11": 21}
    assert list(many(17, roomy).candidates((15, 15))) == [names(17)[3:4] + names(17)[11:12]]
    assert list(many(17, roomy).candidates((21, 15))) == [(names(17)[11], names(17)[3])]
    assert list(many(17, roomy).candidates((21, 21))) == []


def test_those_near_a_node_are_the_ones_with_the_fewest_cables_between() -> None:
    line = many(20, cables=[(at, at + 1) for at in range(19)])
    (first, *others) = line.candidates((1,) * 4)
    assert first == names(4)
    expected = [sorted(sorted(range(20), key=lambda at: (abs(at - seed), at))[:4]) for seed in range(20)]
    found = [[int(name[1:]) for name in members] for members in others]
    assert found == expected[:SEEDS_MAX]


def test_a_node_that_is_cabled_to_too_few_others_or_to_unusable_ones_makes_no_set() -> None:
    pair = many(17, cables=[(4, 5)])
    assert list(pair.candidates((1, 1, 1))) == [names(3)]
    elsewhere = FreeMemory(
        pair.nodes, pair.hosts, pair.free, {NodeName("n04"): (NodeName("gone"), NodeName("away"))}
    )
    assert list(elsewhere.candidates((1, 1, 1))) == [names(3)]


def test_more_ranks_than_nodes_have_no_candidates() -> None:
    assert list(many(2).candidates((1, 1, 1))) == []
    assert not many(2).fit((1, 1, 1))


@given(st.integers(3, 6), st.data())
def test_rings_are_all_orders_in_which_each_is_cabled_to_the_next_once(
    size: int, data: st.DataObject
) -> None:
    members = names(size)
    pairs = list(combinations(members, 2))
    cabled = data.draw(st.sets(st.sampled_from(pairs)))
    ends = {name: [other for other in members if {(name, other), (other, name)} & cabled] for name in members}
    found = list(rings(members, lambda name: ends[name]))

    def joined(order: Sequence[NodeName]) -> bool:
        return all(order[at] in ends[order[at - 1]] for at in range(size))

    expected = [
        order
        for order in permutations(members)
        if order[0] == members[0] and order[1] < order[-1] and joined(order)
    ]
    assert found == list(islice(expected, RINGS_MAX))


@pytest.mark.parametrize(("size", "count"), [(ORDERED_MAX, RINGS_MAX), (ORDERED_MAX + 1, 0)])
def test_so_many_rings_of_so_many_nodes_are_tried_and_no_more(size: int, count: int) -> None:
    assert len(list(rings(names(size), lambda name: [each for each in names(size) if each != name]))) == count
