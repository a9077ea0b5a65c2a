"""Which texts a step reads: alike ones together, clients in turns, nothing twice, nothing left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.runner.decode.inbox import Inbox, Ticket
from reconciler.runner.embedding.loop import STEP_TOKENS, EmbeddingLoop
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.generation import Delta, Finished
from reconciler.wire.sampling import Sampling


class Answered:
    """What the loop knows of an answer: the name of its request."""

    def __init__(self, request: str) -> None:
        self.request = request


class Noted:
    """Notes what is read together; the vector of a text is its length."""

    def __init__(self, size: int = 1) -> None:
        self.steps: list[list[int]] = []
        self.size = size

    def vectors(self, texts: Sequence[tuple[int, ...]], dimensions: Sequence[int | None]) -> list[bytes]:
        self.steps.append([len(text) for text in texts])
        return [len(text).to_bytes(4, "little") for text in texts]


def ticket(client: str, lengths: Sequence[int]) -> Ticket:
    answer: Any = Answered(client)
    texts = tuple((5,) * length for length in lengths)
    return Ticket(None, (), 0, 0, Sampling(), answer, texts=texts, client=client)


def serve(*tickets: Ticket, size: int = 1) -> tuple[list[list[int]], dict[str, list[Any]]]:
    """The steps, and the events of each request. ``size``: numbers of a vector."""
    inbox, noted = Inbox(100, ProgressPipe(None)), Noted(size)
    events: dict[str, list[Any]] = {}

    def post(told: Mapping[Any, Sequence[Any]]) -> None:
        for event in (event for each in told.values() for event in each):
            events.setdefault(event.request, []).append(event)

    for one in tickets:
        assert inbox.open() == ""
        inbox.submit(one)
    inbox.drain()
    EmbeddingLoop(noted, inbox, ProgressPipe(None)).serve(post)
    return noted.steps, events


@given(st.lists(st.lists(st.integers(1, 6000), min_size=1, max_size=20), min_size=1, max_size=6))
def test_every_text_gets_its_vector_once_and_a_step_has_a_bound(questions: list[list[int]]) -> None:
    steps, events = serve(*(ticket(str(number), lengths) for number, lengths in enumerate(questions)))
    for number, lengths in enumerate(questions):
        told = events[str(number)]
        vectors = [vector for event in told if isinstance(event, Delta) for vector in event.vectors]
        assert sorted(vector.place for vector in vectors) == list(range(len(lengths)))
        assert told[-1] == Finished(str(number), "stop", sum(lengths), 0)
    for step in steps:
        assert len(step) == 1 or len(step) * max(step) <= STEP_TOKENS


def test_a_few_texts_do_not_wait_for_anothers_thousands() -> None:
    steps, events = serve(ticket("many", [1000] * 100), ticket("few", [1000] * 4))
    assert len(steps) == 26
    assert len(events["few"]) >= 2
    before = sum(
        len(event.vectors) for event in events["many"][: len(events["few"])] if isinstance(event, Delta)
    )
    assert before <= 8


def test_long_texts_are_read_beside_long_ones() -> None:
    steps, _ = serve(ticket("a", [10, 2000, 12, 1990, 11]))
    assert steps == [[2000, 1990], [12, 11, 10]]


def test_a_step_makes_no_more_vectors_than_the_connection_takes() -> None:
    steps, _ = serve(ticket("a", [3] * 100), size=4096)
    assert [len(step) for step in steps] == [32, 32, 32, 4]
    assert len(serve(ticket("a", [3] * 2), size=1 << 20)[0]) == 2


def test_a_question_that_is_cancelled_ends() -> None:
    inbox, noted = Inbox(100, ProgressPipe(None)), Noted()
    gone, stays = ticket("gone", [5]), ticket("stays", [5])
    told: list[Any] = []
    for one in (gone, stays):
        inbox.open()
        inbox.submit(one)
    inbox.cancel(gone)
    inbox.drain()
    EmbeddingLoop(noted, inbox, ProgressPipe(None)).serve(lambda events: told.extend(*events.values()))
    assert Finished("gone", "cancelled", 0, 0) in told
    assert noted.steps == [[5]]
