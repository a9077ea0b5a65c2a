"""One, two and four ranks say token for token the same, also after an answer was cut and resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.wire.generation import Finished, Sampling

from .conftest import Reference
from .ranks import Group, connected, running

QUESTIONS = (
    "Hello, who are you?",
    "What is a node?",
    "Why is the sky blue?",
    "Count to three.",
    "Tell me more.",
)
DRAWN = Sampling(temperature=1.5, top_p=0.95, top_k=200, min_p=0.001, seed=11)


@pytest.fixture(scope="module", params=[1, 2, 4])
def group(request: pytest.FixtureRequest, tiny: Path) -> Iterator[Group]:
    with running(tiny, request.param) as group:
        yield group.ready()


async def test_greedy_answers_are_those_of_mlx_lm_in_one_process(group: Group, reference: Reference) -> None:
    async with connected(group.socket) as client:
        replies = await asyncio.gather(*(client.ask(q, q, tokens_max=40) for q in QUESTIONS))
    for reply in replies:
        assert reply.tokens == reference(list(reply.prompt), 40)
        assert reply.last.completion_tokens == len(reply.tokens)


@pytest.mark.parametrize("sampling", [Sampling(temperature=0.0), DRAWN], ids=["greedy", "drawn"])
async def test_a_resumed_answer_continues_as_if_never_cut(group: Group, sampling: Sampling) -> None:
    async with connected(group.socket) as client:
        whole = await client.ask("whole", QUESTIONS[1], tokens_max=24, sampling=sampling)
        for cut in (1, len(whole.tokens) // 2, len(whole.tokens)):
            resume = tuple(whole.tokens[:cut])
            rest = await client.ask(f"{cut}", QUESTIONS[1], tokens_max=24, sampling=sampling, resume=resume)
            assert whole.tokens == [*resume, *rest.tokens]
            assert whole.text.endswith(rest.text)
            assert rest.last.completion_tokens == whole.last.completion_tokens
            assert rest.last.reason == whole.last.reason


async def test_requests_with_different_sampling_do_not_disturb_each_other(
    group: Group, reference: Reference
) -> None:
    async with connected(group.socket) as client:
        alone = await client.ask("alone", QUESTIONS[2], tokens_max=20, sampling=DRAWN)
        greedy, drawn, hot = await asyncio.gather(
            client.ask("greedy", QUESTIONS[0], tokens_max=20),
            client.ask("drawn", QUESTIONS[2], tokens_max=20, sampling=DRAWN),
            client.ask("hot", QUESTIONS[3], tokens_max=30, sampling=Sampling(temperature=5.0, top_k=10**9)),
        )
        assert greedy.tokens == reference(list(greedy.prompt), 20)
        assert drawn.tokens == alone.tokens
        assert isinstance(hot.last, Finished)
    steps = {rank.process.poll() for rank in group.ranks}
    assert steps == {None}
