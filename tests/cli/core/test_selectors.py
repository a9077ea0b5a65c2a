"""Label selectors mean what kubectl means by them."""

from __future__ import annotations

import pytest

from reconciler.cli.core.selectors import parse_selector

LABELS = {"pool": "studios", "zone": "a", "team.example/owner": "x", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "pool",
        "pool=studios",
        "pool == studios",
        "pool!=minis",
        "missing!=anything",
        "zone in (a, b)",
        "zone in (a,b),pool=studios",
        "zone notin (b,c)",
        "missing notin (b)",
        "!missing",
        "! missing , pool",
        "team.example/owner=x",
        "empty=",
        "empty in ()",
        "zone in(a)",
    ],
)
def test_it_selects(text: str) -> None:
    assert parse_selector(text).selects(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "missing",
        "!pool",
        "pool=minis",
        "pool!=studios",
        "zone in (b, c)",
        "missing in (a)",
        "zone notin (a)",
        "pool=studios,zone=b",
        "pool=",
    ],
)
def test_it_does_not_select(text: str) -> None:
    assert not parse_selector(text).selects(LABELS)


@pytest.mark.parametrize(
    "text", ["=a", "pool=studios,", ",", "zone in a,b", "zone in (a", "zone notin", "!", "a b", "pool=a=b"]
)
def test_what_is_no_selector_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected requirements such as"):
        parse_selector(text)
