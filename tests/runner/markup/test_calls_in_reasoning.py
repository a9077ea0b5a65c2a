"""A call within reasoning that has no end is a call, in every family; within reasoning that has one, it was a draft."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.channels import Channels
from tests.examples import examples

from .reading import BY_NAME, Seen, read, tools_for
from .test_calls import cut
from .writers import WRITERS, Call

FAMILIES = [
    name
    for name, known in BY_NAME.items()
    if not isinstance(known.family, Channels) and known.family.format and not known.family.format.bare
]
CALL: Call = ("look", {"at": "the sea", "times": 3})
TOOLS = tools_for([CALL])
families = pytest.mark.parametrize("name", FAMILIES)
thoughts = st.lists(st.sampled_from(["I think", " so.", "\n", " <b>", "```", " look "]), min_size=1).map(
    "".join
)
seeds = st.integers(0, 2**32)


def thinking(name: str) -> Family:
    return dataclasses.replace(BY_NAME[name].family, thinking=(("<think>", "</think>"),))


def both(name: str, text: str, seed: int) -> Seen:
    """What an answer is read as after a prompt that ends with the beginning of reasoning, whole and in pieces alike."""
    whole = read(thinking(name), [text], TOOLS, "<think>\n")
    in_pieces = read(thinking(name), cut(text, seed), TOOLS, "<think>\n")
    assert (in_pieces.calls, in_pieces.content, in_pieces.reasoning) == (
        whole.calls,
        whole.content,
        whole.reasoning,
    )
    return whole


@families
@settings(max_examples=examples(20))
@given(thought=thoughts, seed=seeds)
def test_a_call_ends_reasoning_that_has_no_end(name: str, thought: str, seed: int) -> None:
    seen = both(name, thought + WRITERS[name]([CALL]), seed)
    assert (seen.parsed, seen.reasoning, seen.content.strip()) == ([CALL], thought.strip(" \n"), "")


@families
@settings(max_examples=examples(20))
@given(thought=thoughts, after=thoughts, seed=seeds)
def test_a_draft_of_a_call_is_reasoning(name: str, thought: str, after: str, seed: int) -> None:
    draft = WRITERS[name]([("look", {"at": "a draft", "times": 1})])
    seen = both(name, f"{thought}{draft}{after}</think>{WRITERS[name]([CALL])}", seed)
    assert seen.parsed == [CALL]
    assert seen.reasoning == f"{thought}{draft}{after}".strip(" \n")


@families
@settings(max_examples=examples(20))
@given(place=st.floats(0, 1), seed=seeds)
def test_a_draft_that_breaks_off_takes_nothing_with_it(name: str, place: float, seed: int) -> None:
    draft = WRITERS[name]([("look", {"at": "a draft", "times": 1})])
    begun = draft[: int(place * len(draft))]
    seen = both(name, f"Hm. {begun}</think>{WRITERS[name]([CALL])}", seed)
    assert (seen.parsed, seen.content.strip()) == ([CALL], "")
    assert seen.reasoning == f"Hm. {begun}".strip(" \n")
