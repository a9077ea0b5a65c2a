"""How many prompt tokens a step reads: a machine is played by what it takes for a token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.runner.decode.pacing import (
    ALONE_SECONDS,
    ALONE_TOKENS_MIN,
    GROWTH,
    LEAST_SHARE,
    TOKENS_MIN,
    UNKNOWN_TOKENS,
    Pacing,
    _grown,
)
from reconciler.wire.launch import PIECE_TOKENS_MAX


class Machine:
    """Takes a while for each step that decodes, for each that reads, and for each token that it reads."""

    def __init__(self, decode: float, fixed: float, token: float) -> None:
        self.pacing = Pacing()
        self._decode, self._fixed, self._token = decode, fixed, token

    def step(self, stall: float | None, reads: bool = True) -> tuple[int, float]:
        """Return the tokens that a step reads, and how long it takes."""
        tokens = self.pacing.tokens(stall) if reads else 0
        seconds = (self._decode if stall else 0.0) + (self._fixed + tokens * self._token if tokens else 0.0)
        self.pacing.measured(seconds, tokens, stall is not None)
        return tokens, seconds


def test_what_nobody_waits_for_is_read_in_large_parts() -> None:
    fast = Machine(0.01, 0.0, 0.0001)
    assert [fast.step(None)[0] for _ in range(3)] == [PIECE_TOKENS_MAX] * 3


def test_a_part_that_nobody_waits_for_does_not_take_for_ever() -> None:
    slow = Machine(0.1, 0.0, 0.005)
    assert [slow.step(None)[0] for _ in range(2)] == [PIECE_TOKENS_MAX, round(ALONE_SECONDS / 0.005)]
    slower = Machine(0.1, 0.0, 0.05)
    assert [slower.step(None)[0] for _ in range(2)] == [PIECE_TOKENS_MAX, ALONE_TOKENS_MIN]


@pytest.mark.parametrize("stall", [0.1, 0.25, 1.0])
@pytest.mark.parametrize(("decode", "fixed", "token"), [(0.02, 0.0, 0.0005), (0.03, 0.03, 0.0002)])
def test_answers_wait_for_no_longer_than_they_may(
    decode: float, fixed: float, token: float, stall: float
) -> None:
    machine = Machine(decode, fixed, token)
    machine.step(stall, reads=False)
    parts = [machine.step(stall) for _ in range(20)]
    assert parts[0][0] == UNKNOWN_TOKENS
    assert max(seconds for _, seconds in parts) <= stall
    assert parts[-1][1] >= stall / 2 or parts[-1][0] == PIECE_TOKENS_MAX, "and the time is used"


def test_a_model_whose_steps_are_longer_than_that_reads_all_the_same() -> None:
    machine = Machine(decode=0.5, fixed=0.0, token=0.001)
    machine.step(0.25, reads=False)
    parts = [machine.step(0.25) for _ in range(10)]
    assert parts[-1][0] == int(0.5 * LEAST_SHARE / 0.001) // TOKENS_MIN * TOKENS_MIN


def test_where_it_takes_too_long_to_read_at_all_more_tokens_are_read_at_a_time() -> None:
    """As on a machine with other work: a prompt would take for ever in the smallest parts."""
    machine = Machine(decode=0.05, fixed=0.3, token=0.0005)
    machine.step(0.25, reads=False)
    parts = [machine.step(0.25) for _ in range(20)]
    assert parts[-1][0] >= 100
    assert parts[-1][1] <= (0.05 + 0.3) * (1 + LEAST_SHARE) * 1.01


def test_a_step_that_took_too_long_is_followed_by_a_shorter_one() -> None:
    machine = Machine(decode=0.02, fixed=0.01, token=0.0003)
    for _ in range(20):
        machine.step(0.25)
    before = machine.step(0.25)[0]
    machine.pacing.measured(1.0, before, True)
    assert machine.step(0.25)[0] <= before / 4
    assert [machine.step(0.25)[0] for _ in range(20)][-1] >= before * 0.9


def test_the_deeper_a_prompt_the_smaller_its_parts() -> None:
    machine = Machine(decode=0.01, fixed=0.0, token=0.0001)
    for _ in range(20):
        machine.step(0.25)
    machine._token = 0.0004
    machine.step(0.25)
    assert machine.step(0.25)[1] <= 0.25


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 4096), st.booleans())), st.floats(0.01, 60))
def test_whatever_was_measured_every_prompt_gets_on(
    steps: list[tuple[float, int, bool]], stall: float
) -> None:
    pacing = Pacing()
    for seconds, read, decoded in steps:
        pacing.measured(seconds, read, decoded)
    for patience in (None, stall):
        assert TOKENS_MIN <= pacing.tokens(patience) <= PIECE_TOKENS_MAX


@given(st.integers(1, PIECE_TOKENS_MAX), st.floats(0.001, 1000.0))
def test_less_time_is_for_fewer_tokens_and_more_time_for_at_most_so_many_more(
    tokens: int, share: float
) -> None:
    grown = _grown(tokens, share)
    if share <= 1:
        assert grown == pytest.approx(tokens * share)
    else:
        assert tokens + TOKENS_MIN <= grown <= max(GROWTH * tokens, tokens + TOKENS_MIN)
        assert grown <= max(tokens * share, tokens + TOKENS_MIN), "each token costs more the more there are"
