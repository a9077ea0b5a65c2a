"""The limits of calls into MLX, which hold the interpreter's lock."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator

import pytest

from reconciler.runner.group.init import interrupted

NUMBERS = (signal.SIGIO, signal.SIGALRM)


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    handlers, timer = (
        {number: signal.getsignal(number) for number in NUMBERS},
        signal.setitimer(signal.ITIMER_REAL, 0),
    )
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.setitimer(signal.ITIMER_REAL, *timer)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_what_comes_after_a_call_interrupts_nothing(pipe: tuple[int, int]) -> None:
    flags = fcntl.fcntl(pipe[0], fcntl.F_GETFL)
    with interrupted((pipe[0],), 600.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        assert fcntl.fcntl(pipe[0], fcntl.F_GETFL) == flags | os.O_ASYNC
        assert all(callable(signal.getsignal(number)) for number in NUMBERS)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert fcntl.fcntl(pipe[0], fcntl.F_GETFL) == flags
    assert [signal.getsignal(number) for number in NUMBERS] == [signal.SIG_IGN, signal.SIG_IGN]


def test_so_it_is_after_a_call_that_has_failed(pipe: tuple[int, int]) -> None:
    with pytest.raises(RuntimeError, match="MLX"), interrupted((pipe[0],), 600.0):
        raise RuntimeError("MLX")
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert [signal.getsignal(number) for number in NUMBERS] == [signal.SIG_IGN, signal.SIG_IGN]


def test_a_call_takes_no_longer_than_its_limit(pipe: tuple[int, int]) -> None:
    with interrupted((), 0.01):
        time.sleep(0.05)
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0, "it has rung"
