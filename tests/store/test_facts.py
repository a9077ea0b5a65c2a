"""The facts that a group was formed under have the stored form of earlier versions."""

from __future__ import annotations

import pytest

from reconciler.state import NodeName
from reconciler.state.formed_under import Fact, in_order
from reconciler.store.facts import read, written

TEXT = '{"node-a boot":"1234","node-a/3 Gb/s":"80","node-a/3 peer":"node-b/4","the manifests":"1/1"}'
A = NodeName("node-a")
FACTS = {
    Fact("the manifests"): "1/1", Fact("boot", A): "1234", Fact("Gb/s", A, 3): "80", Fact("peer", A, 3): "node-b/4",
}  # fmt: skip


def test_the_stored_form_is_read_and_written_unchanged() -> None:
    assert read(TEXT) == in_order(FACTS)
    assert written(in_order(FACTS)) == TEXT
    assert written(read("")) == ""


@pytest.mark.parametrize("text", ["{}", "no JSON", "[]", '{"node-a/x boot": "1"}'])
def test_of_a_text_that_cannot_be_read_no_fact_is_known(text: str) -> None:
    assert read(text) == ()
