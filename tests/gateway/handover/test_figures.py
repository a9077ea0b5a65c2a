"""Counts of two gateways are added, and what was counted before the switch is counted by one of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.handover.figures import since, together
from reconciler.wire.figures import ModelFigures

BOUNDS = (0.5, 2.0)
COUNTS = st.integers(0, 100)
MODELS = st.builds(
    ModelFigures,
    st.sampled_from(["small", "large"]),
    COUNTS,
    COUNTS,
    COUNTS,
    st.tuples(COUNTS, COUNTS, COUNTS),
    COUNTS,
)
FIGURES = st.lists(MODELS, unique_by=lambda each: each.model).map(tuple)


def total(figures: tuple[ModelFigures, ...]) -> int:
    return sum(each.errors + each.tokens + sum(each.first_token) for each in figures)


def at_work(figures: tuple[ModelFigures, ...]) -> int:
    return sum(each.running + each.waiting for each in figures)


@given(FIGURES, FIGURES)
def test_what_two_gateways_have_counted_is_added(
    one: tuple[ModelFigures, ...], other: tuple[ModelFigures, ...]
) -> None:
    both = together(one, other, BOUNDS)
    assert total(both) == total(one) + total(other)
    assert at_work(both) == at_work(one) + at_work(other)


@given(FIGURES, FIGURES)
def test_what_comes_after_the_switch_is_all_but_what_came_before(
    before: tuple[ModelFigures, ...], more: tuple[ModelFigures, ...]
) -> None:
    now = together(before, more, BOUNDS)
    assert total(since(now, before)) == total(more)
    assert at_work(since(now, before)) == at_work(now)


def test_counts_by_other_bounds_are_left_out() -> None:
    own, other = ModelFigures("small", 0, 0, 1, (1, 2, 3), 3), ModelFigures("small", 0, 0, 1, (1, 2), 3)
    assert together((own,), (other,), BOUNDS) == (own,)
    assert together((), (other,), BOUNDS) == (), "this gateway may soon count for that deployment itself"
