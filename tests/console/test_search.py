"""The search finds what has all words, and leads to the page about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.console.view.search import SHOWN_MAX, search

from .snapshots import page_of, recorded

PULLED = recorded("cable-pulled")


def found(query: str) -> dict[str, list[tuple[str, str]]]:
    return {sort.title: [(hit.name, hit.path) for hit in sort.hits] for sort in search(PULLED, query)}


def test_an_object_is_found_with_its_ranks_events_and_incidents() -> None:
    hits = found("STUDIO-3")
    assert ("node/studio-3", "/nodes/studio-3") in hits["Objects"]
    assert ("node/studio-3", "/incidents/1") in hits["Incidents"]
    assert ("node/studio-3", "/events?object=node%2Fstudio-3") in hits["Events"]
    assert any(path.startswith("/logs/large.0.") for _, path in hits["Ranks"])


@pytest.mark.parametrize("query", ["bridge en6", "  EN6\tbridge ", "C4 bridge studio-3"])
def test_all_words_have_to_be_there_in_any_order_and_case(query: str) -> None:
    assert ("node/studio-3", "/incidents/1") in found(query)["Incidents"]


@pytest.mark.parametrize("query", ["", "  ", "bridge-of-nowhere", "en6 nowhere"])
def test_without_a_word_and_without_a_hit_there_is_nothing(query: str) -> None:
    assert found(query) == {}


def test_of_many_hits_the_newest_are_shown_and_the_rest_is_counted() -> None:
    event = PULLED.events[0]
    many = replace(PULLED, events=tuple({**event, "id": n, "message": f"number {n}"} for n in range(120)))
    (sort,) = search(many, "number")
    assert (sort.hits[0].text, len(sort.hits), sort.left_out) == (
        f"{event['reason']} number 119",
        SHOWN_MAX,
        120 - SHOWN_MAX,
    )


def test_the_page_says_what_was_found_and_shows_no_markup_of_others() -> None:
    assert "has all of the words" in page_of(PULLED, "/search")
    html = page_of(PULLED, "/search", "<b>x</b>")
    assert "No results for <b>&lt;b&gt;x&lt;/b&gt;</b>" in html
