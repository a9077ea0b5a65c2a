"""The ports of groups are drawn: nobody foresees them, and no two groups have the same."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning.context import tcp_ports
from reconciler.planning.context.tcp_ports import PORT_FIRST, PORT_LAST, first_ports

COUNTS = st.integers(2, 9)
RANGES = st.builds(
    lambda first, count: range(first, first + count), st.integers(PORT_FIRST, PORT_LAST), st.integers(1, 40)
)


@given(st.text(), COUNTS, st.lists(RANGES, max_size=60))
def test_ports_are_adjacent_within_the_bounds_and_nobody_elses(
    seed: str, count: int, used: list[range]
) -> None:
    first = first_ports(seed, count, used)
    assert PORT_FIRST <= first <= first + count - 1 <= PORT_LAST
    assert all(set(range(first, first + count)).isdisjoint(ports) for ports in used)


@given(st.text(), COUNTS, st.lists(RANGES, max_size=5))
def test_the_same_secret_draws_the_same_ports(seed: str, count: int, used: list[range]) -> None:
    assert first_ports(seed, count, used) == first_ports(seed, count, used)


def test_ports_are_spread_over_the_whole_range_and_do_not_follow_one_another() -> None:
    drawn = [first_ports(f"pass {number}", 3, ()) for number in range(400)]
    middle = (PORT_FIRST + PORT_LAST) // 2
    assert 120 < sum(port < middle for port in drawn) < 280
    following = sum(0 < later - earlier <= 24 for earlier, later in itertools.pairwise(drawn))
    assert following < 12, "a scanner that tries the next 24 ports would often find a group"


def test_the_last_ports_that_are_free_are_found_and_where_there_are_none_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp_ports, "PORT_LAST", PORT_FIRST + 9)
    for number in range(20):
        assert first_ports(str(number), 3, [range(PORT_FIRST, PORT_FIRST + 7)]) == PORT_FIRST + 7
    with pytest.raises(AssertionError, match="more groups than ports"):
        first_ports("", 3, [range(PORT_FIRST, PORT_FIRST + 8)])
