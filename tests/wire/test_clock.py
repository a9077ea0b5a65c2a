"""A stored time is waited for if it can have been set, and not if a clock was ahead when it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reconciler.wire.clock import SLACK_SECONDS, seconds_left

DAY = 86_400.0
NOW = 20_000 * DAY
longest = st.floats(0.0, 10 * DAY)


@given(longest, st.floats(0.0, 1.0), st.floats(0.0, SLACK_SECONDS - 1))
def test_what_was_set_now_is_waited_for_even_if_the_clock_goes_back_a_little(
    most: float, part: float, back: float
) -> None:
    until = NOW + part * most
    left = seconds_left(until, NOW - back, most)
    assert abs(left - (part * most + back)) < 1e-3


@given(longest, st.floats(SLACK_SECONDS + 1, 400 * DAY))
def test_nobody_waits_for_the_day_of_a_clock_that_was_ahead(most: float, ahead: float) -> None:
    assert seconds_left(NOW + ahead + most, NOW, most) == 0


@given(longest, st.floats(0.0, 400 * DAY))
def test_what_is_over_stays_over_whatever_is_jumped(most: float, behind: float) -> None:
    assert seconds_left(NOW, NOW + behind, most) == 0
