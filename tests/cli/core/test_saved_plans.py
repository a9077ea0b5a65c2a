"""The saved plans that are kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.cli.core import saved_plans
from reconciler.cli.core.saved_plans import SavedPlan, save

PLANS = sorted((SavedPlan("home", None, {}, text, ()) for text in "abc"), key=lambda plan: plan.id)


@pytest.mark.parametrize(
    ("order", "kept"),
    [((0, 1, 2), {1, 2}), ((2, 1, 0), {1, 0}), ((1, 2, 0), {2, 0}), ((0, 1, 0, 2), {0, 2})],
)
def test_of_too_many_plans_the_one_that_was_saved_longest_ago_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Sequence[int], kept: set[int]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(saved_plans, "KEPT_MAX", 2)
    folder = tmp_path / "reconciler" / "plans"
    for second, place in enumerate(order):
        save(PLANS[place])
        os.utime(folder / f"{PLANS[place].id}.json", (second, second))
    assert {path.stem for path in folder.iterdir()} == {PLANS[place].id for place in kept}
