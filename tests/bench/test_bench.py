"""The benchmarks that need no ranks run at their smallest; how fast anything is, is asserted nowhere."""

from __future__ import annotations

import json

import pytest

from .__main__ import NAMES, measure_of
from .figures import WIDTH, Figure, alone, paired, table
from .measures import commands, console, detection, documents, overhead, passes, planning, push, remote, scale

pytestmark = pytest.mark.second_tier


@pytest.mark.parametrize(
    "module",
    [
        *(commands, console, detection, documents, overhead, passes, planning, push, scale),
        pytest.param(remote, marks=pytest.mark.needs("sshd")),
    ],
)
def test_a_benchmark_gives_figures(module: object) -> None:
    figures: list[Figure] = list(module.measure(quick=True))  # type: ignore[attr-defined]
    assert figures
    for figure in figures:
        assert json.loads(figure.line()).keys() == {"name", "ours", "peer", "ratio", "spread", "unit"}


def test_every_benchmark_can_be_asked_for_by_name() -> None:
    assert all(callable(measure_of(name)) for name in NAMES)


def test_a_pair_is_compared_repetition_by_repetition() -> None:
    figure = paired("a", "s", [1.0, 20.0, 3.0], [2.0, 40.0, 3.0])
    assert (figure.ours, figure.peer, figure.ratio) == (3.0, 3.0, 0.5)
    assert figure.spread == 0.25


def test_a_table_fits_a_terminal() -> None:
    figures = [
        paired("x" * 60, "tokens/s", [123456.7], [0.00012345], ">= 1.3"),
        alone("y", "MiB", [1.0], "< 100", "Flux: 223"),
    ]
    lines = list(table(figures))
    assert len(lines) == 3
    assert all(len(line) <= WIDTH for line in lines)
    assert lines[2].split() == ["y", "1", "Flux:", "223", "-", "0", "MiB", "<", "100"]
