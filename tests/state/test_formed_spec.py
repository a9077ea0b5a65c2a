"""The part of a spec that a group is formed for."""

from __future__ import annotations

import json

import pytest

from reconciler.state.formed_spec import FormedSpec, written
from tests.worlds import deployment, model


def test_a_spec_is_the_one_of_its_text() -> None:
    wished = deployment(nodes=2, serving={"maxBatch": 4, "aliases": ["a"]})
    spec = FormedSpec.of(wished, model())
    assert FormedSpec.parse(spec.json) == spec
    assert (spec.deployment.serving.max_batch, spec.deployment.serving.aliases) == (4, ())
    assert spec.model.spec.source == model().spec.source
    assert json.loads(written(spec)) == spec.body


def test_what_is_changed_in_place_makes_no_other_spec() -> None:
    before = FormedSpec.of(deployment(nodes=2), model())
    assert FormedSpec.of(deployment(nodes=2, serving={"aliases": ["a"]}), model()) == before
    assert FormedSpec.of(deployment(nodes=2, serving={"maxBatch": 4}), model()) != before


def test_the_text_of_an_earlier_version_stays_as_it_was() -> None:
    earlier = (
        '{"model": {"source": {"path": "tiny"}}, "serving": {"maxBatch": 16}, "spec": {"model": "tiny"}}'
    )
    spec = FormedSpec.parse(earlier)
    assert spec is not None
    assert written(spec) == earlier
    assert spec.model.metadata.name == "tiny"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "null", '{"spec":{},"serving":{},"model":{}}', '{"spec":1}']
)
def test_a_text_that_this_version_cannot_read_is_no_spec(text: str) -> None:
    assert FormedSpec.parse(text) is None


def test_no_spec_is_written_as_nothing() -> None:
    assert written(None) == ""
