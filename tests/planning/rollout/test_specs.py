"""Differences between two specs, as decisions and people get them."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.rollout.specs import Change, changes, shown_changes
from reconciler.state.formed_spec import FormedSpec
from tests.worlds import deployment, model


def spec(**wanted: Any) -> FormedSpec:
    made = deployment(**wanted)
    return FormedSpec.of(made, model(made.spec.model, made.spec.model))


@pytest.mark.parametrize(
    ("field", "fields", "of"),
    [
        ("serving.maxBatch", ("serving",), True),
        ("serving.maxBatch", ("maxBatch",), False),
        ("serving.maxBatch", (".",), False),
        ("model", ("serving", "model"), True),
    ],
)
def test_a_change_is_of_the_first_field_of_its_path(field: str, fields: tuple[str, ...], of: bool) -> None:
    assert Change(field, 1, 2).is_of(fields) is of


def test_of_a_spec_that_is_not_known_no_change_is_shown() -> None:
    known = spec(serving={"maxBatch": 4})
    assert shown_changes(None, known) == shown_changes(known, None) == shown_changes(None, None) == ""


def test_each_field_that_differs_is_shown_once_in_the_order_of_their_names() -> None:
    before, after = (
        spec(serving={"maxBatch": 4, "context": 512}),
        spec(serving={"maxBatch": 8, "context": 1024}),
    )
    assert [each.field for each in changes(before, after)] == ["serving.context", "serving.maxBatch"]
    assert shown_changes(before, after) == "serving.context 512 → 1024, serving.maxBatch 4 → 8"
    assert shown_changes(before, before) == ""
