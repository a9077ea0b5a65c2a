"""The limit of descriptors is raised to what is allowed."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

from reconciler.descriptors import SPARE, STEPS, are_spare, candidates, limit, raised

INFINITE = resource.RLIM_INFINITY


@pytest.fixture
def given() -> Iterator[tuple[int, int]]:
    """The limits of this process, which has them again afterwards."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield limits
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_the_limit_is_raised_to_the_hard_one(given: tuple[int, int]) -> None:
    soft, hard = given
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(256, soft // 2), hard))
    reached = raised()
    assert reached == limit()
    assert reached >= soft if hard == INFINITE else reached == hard


@pytest.mark.parametrize(
    ("soft", "hard", "tried"),
    [
        (256, 4096, [4096]),
        (256, 20_000, [20_000, 10_240]),
        (4096, 4096, []),
        (256, INFINITE, list(STEPS)),
        (30_000, INFINITE, [65_536, 49_152]),
        (INFINITE, INFINITE, []),
    ],
)
def test_what_a_system_may_refuse_is_tried_in_steps(soft: int, hard: int, tried: list[int]) -> None:
    assert list(candidates(soft, hard)) == tried


def test_a_process_has_descriptors_to_spare_or_not(given: tuple[int, int]) -> None:
    before = os.dup(2)
    os.close(before)
    assert are_spare()
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + SPARE - 1, given[1]))
    assert not are_spare()
    after = os.dup(2)
    os.close(after)
    assert after == before
