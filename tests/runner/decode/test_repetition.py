"""Answers that only repeat themselves are found as soon as they do, and no others."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from reconciler.runner.decode.answer import RepetitionScanner
from reconciler.wire.sampling import Repetition


def first(tokens: list[int], wanted: Repetition) -> int | None:
    """After how many tokens the scanner says that they repeat themselves."""
    scanner = RepetitionScanner(wanted)
    return next((count for count, token in enumerate(tokens, 1) if scanner.repeats(token)), None)


def first_by_definition(tokens: list[int], wanted: Repetition) -> int | None:
    for count in range(1, len(tokens) + 1):
        for size in range(wanted.pattern_min, wanted.pattern_max + 1):
            end, whole = tokens[max(0, count - size * wanted.count) : count], size * wanted.count
            if len(end) == whole and end == end[:size] * wanted.count:
                return count
    return None


@given(
    tokens=st.lists(st.integers(0, 2), max_size=60),
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 6)).map(sorted),
    count=st.integers(2, 4),
)
def test_it_says_so_at_the_first_token_that_completes_the_pattern_so_many_times(
    tokens: list[int], sizes: list[int], count: int
) -> None:
    wanted = Repetition(pattern_min=sizes[0], pattern_max=sizes[1], count=count)
    assert first(tokens, wanted) == first_by_definition(tokens, wanted)


@pytest.mark.parametrize(("pattern", "tokens"), [(1, 64), (3, 72), (16, 64), (100, 400), (1024, 4096)])
def test_a_pattern_of_any_size_is_found_by_the_usual_bounds(pattern: int, tokens: int) -> None:
    """One of 3 tokens is one of 18, 6 times over."""
    wanted = Repetition(pattern_max=1024, pattern_min=16, count=4)
    before = list(range(10_000, 10_500))
    assert first(before + list(range(pattern)) * (4096 // pattern + 64), wanted) == len(before) + tokens


def test_a_pattern_that_is_longer_or_not_often_enough_is_none() -> None:
    wanted = Repetition(pattern_max=1024, pattern_min=16, count=4)
    assert first(list(range(1025)) * 8, wanted) is None
    assert first((list(range(50)) * 3 + [99]) * 3, wanted) is None
