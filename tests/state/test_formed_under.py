"""The facts that a group was formed under have the text that earlier versions stored."""

from __future__ import annotations

import pytest

from reconciler.state import NodeName
from reconciler.state.formed_under import Fact, Facts

TEXT = '{"node-a boot":"1234","node-a/3 Gb/s":"80","node-a/3 peer":"node-b/4","the manifests":"1/1"}'
A = NodeName("node-a")
FACTS = Facts.of(
    {
        Fact("the manifests"): "1/1",
        Fact("boot", A): "1234",
        Fact("Gb/s", A, 3): "80",
        Fact("peer", A, 3): "node-b/4",
    }
)


def test_the_stored_text_is_read_and_written_unchanged() -> None:
    assert Facts.parse(TEXT) == FACTS
    assert str(FACTS) == TEXT
    assert str(Facts.parse("")) == ""


@pytest.mark.parametrize("text", ["{}", "no JSON", "[]", '{"node-a/x boot": "1"}'])
def test_of_a_text_that_cannot_be_read_no_fact_is_known(text: str) -> None:
    assert Facts.parse(text) == Facts()
