"""Beside a chat stands who answers, or why nobody does; and what a browser says was said is shown whatever it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.console.snapshot import Snapshot
from reconciler.console.view.chat import chat, chosen, joined, models, said

from .snapshots import recorded


def test_a_model_that_is_served_says_by_which_epoch_on_which_nodes() -> None:
    shown = chat(recorded("four-macs"), "large")
    assert shown is not None
    (group,) = shown.groups
    shown_group = (group["epoch"], joined(group["nodes"]), group["transportName"])
    assert shown_group == (1, "studio-1..4", "jaccl")
    assert shown.reasons == ()


def test_a_model_that_is_not_served_has_the_reasons_of_the_plan_and_its_incident() -> None:
    snapshot = recorded("cable-pulled")
    shown = chat(snapshot, "large")
    assert shown is not None
    assert shown.groups == ()
    assert [reason.text for reason in shown.reasons] == [
        entry["text"] for entry in snapshot.plan["waiting"] if entry["object"] == "modeldeployment/large"
    ]
    assert shown.incidents
    assert all(each["object"] == "modeldeployment/large" for each in shown.incidents)


def test_what_was_over_long_ago_is_not_told_beside_a_chat() -> None:
    snapshot = recorded("cable-pulled")
    closed: Any = tuple(
        {**each, "open": False, "closedAt": "2025-01-01T00:00:00.000Z"} for each in snapshot.incidents
    )
    shown = chat(replace(snapshot, incidents=closed), "large")
    assert shown is not None
    assert shown.incidents == ()


def test_without_a_name_the_first_model_that_is_served_is_meant() -> None:
    assert chosen(recorded("four-macs"), "") == "large"
    assert chosen(recorded("four-macs"), "other") == "other"
    assert chosen(Snapshot(), "") == ""
    assert [model.current for model in models(recorded("four-macs"), "large")] == [True]


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (["studio-1", "studio-2", "studio-3"], "studio-1..3"),
        (["studio-9", "studio-10", "studio-11"], "studio-9..11"),
        (["studio-1", "studio-3", "studio-4"], "studio-1, studio-3, studio-4"),
        (["studio-1", "mini-2", "studio-3"], "studio-1, mini-2, studio-3"),
        (["node-a", "node-b"], "node-a, node-b"),
        ([], ""),
    ],
)
def test_names_in_a_row_are_told_in_short(nodes: list[str], text: str) -> None:
    assert joined(nodes) == text


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
fields = st.sampled_from(
    ["role", "content", "reasoning_content", "tool_calls", "groups", "function", "epoch", "nodes"]
)


@given(
    st.dictionaries(fields, json | st.dictionaries(fields, json) | st.lists(st.dictionaries(fields, json)))
)
def test_any_message_of_a_browser_can_be_shown(message: dict[str, object]) -> None:
    shown = said(message)
    assert shown.by in ("person", "tool", "model")
    assert isinstance(shown.text, str)
