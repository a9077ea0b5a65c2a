"""Every kind of step has exactly one handler, and every handler is for a kind of step."""

from __future__ import annotations

from typing import get_args

from reconciler.execution.handlers import HANDLERS, ROWS
from reconciler.state import Step


def test_every_kind_of_step_has_exactly_one_handler() -> None:
    assert sorted(kind.__name__ for kind, _ in ROWS) == sorted(kind.__name__ for kind in get_args(Step))
    assert len(set(HANDLERS.values())) == len(ROWS)
