"""How long a tool is listened to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent.system import tools
from reconciler.wire.tools import Ending

START = 1000.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def listened(
    monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int], ends_at: int, deadline: float, says: int
) -> tuple[str, bytes]:
    """Listen to a tool that says a word at each of its first looks and ends at another, in a clock that goes on by one
    second with each look. Its pipe stays open: another process has it."""
    looks = 0

    def monotonic() -> float:
        nonlocal looks
        looks += 1
        if looks <= says:
            os.write(pipe[1], b"x")
        return START + looks

    process: Any = SimpleNamespace(poll=lambda: 0 if looks >= ends_at else None)
    monkeypatch.setattr(tools, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(tools, "_LINGER_SECONDS", 2.5)
    monkeypatch.setattr(tools, "time", SimpleNamespace(monotonic=monotonic))
    output = tools._Output({pipe[0]: []})
    return tools._listen(process, output, START + deadline), b"".join(output.chunks[pipe[0]])


@pytest.mark.parametrize(
    ("ends_at", "deadline", "says", "ending", "heard"),
    [
        (1, 99.0, 20, Ending.ENDED, 3),
        (10, 99.0, 9, Ending.ENDED, 9),
        (10, 99.0, 20, Ending.ENDED, 12),
        (99, 7.5, 20, Ending.LATE, 7),
    ],
)
def test_a_tool_is_listened_to_until_it_has_ended_and_for_a_moment_longer(
    ends_at: int,
    deadline: float,
    says: int,
    ending: str,
    heard: int,
    pipe: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert listened(monkeypatch, pipe, ends_at, deadline, says) == (ending, b"x" * heard)
