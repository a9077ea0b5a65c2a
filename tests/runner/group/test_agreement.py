"""One, two and four ranks say token for token the same, also after an answer was cut and resumed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.runner.decode.leader import SCORED_PER_STEP
from reconciler.wire.generation import Delta, Finished, Scored
from reconciler.wire.sampling import Ending, Sampling
from tests.runner.conftest import adjusted_tokens, end_ids, greedy_tokens, token_logprobs
from tests.runner.decode.test_adjustment import plain
from tests.runner.ranks import Group, Rank, configs, connected, running, short_directory

QUESTIONS = (
    "Hello, who are you?",
    "What is a node?",
    "Why is the sky blue?",
    "Count to three.",
    "Tell me more.",
)
DRAWN = Sampling(temperature=1.5, top_p=0.95, top_k=200, min_p=0.001, seed=11)


PENALIZED = Sampling(temperature=0.0, repetition_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.6)
ENDING = Ending(tokens_min=9, stop_tokens=(17,))


@pytest.fixture(scope="module", params=[1, 2, 4])
def group(request: pytest.FixtureRequest, tiny: Path) -> Iterator[Group]:
    with running(tiny, request.param) as group:
        yield group.ready()


@pytest.mark.second_tier
async def test_greedy_answers_are_those_of_mlx_lm_in_one_process(group: Group, tiny: Path) -> None:
    async with connected(group.socket) as client:
        replies = await asyncio.gather(*(client.ask(q, q, tokens_max=24) for q in QUESTIONS))
    for reply in replies:
        assert reply.tokens == greedy_tokens(tiny, list(reply.prompt), 24)
        assert reply.last.completion_tokens == len(reply.tokens)


@pytest.mark.second_tier
async def test_penalties_and_ends_are_those_of_one_process(group: Group, tiny: Path) -> None:
    async with connected(group.socket) as client:
        replies = await asyncio.gather(
            *(
                client.ask(q, q, tokens_max=20, sampling=PENALIZED, ending=ENDING, logprobs=3)
                for q in QUESTIONS
            )
        )
    for reply in replies:

        def adjust(logits: Any, said: list[int], prompt: tuple[int, ...] = reply.prompt) -> list[float]:
            return plain(logits, PENALIZED, ENDING, prompt, said, end_ids(tiny))

        expected = adjusted_tokens(tiny, list(reply.prompt), 20, adjust, ENDING.stop_tokens)
        assert reply.tokens[: reply.last.completion_tokens] == expected
        assert len(expected) >= 9
        reported = [one.chosen.token for e in reply.events if isinstance(e, Delta) for one in e.logprobs]
        assert reported == expected


@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=0.0), DRAWN, PENALIZED], ids=["greedy", "drawn", "penalized"]
)
async def test_a_resumed_answer_continues_as_if_never_cut(group: Group, sampling: Sampling) -> None:
    async with connected(group.socket) as client:
        complete = await client.ask("whole", QUESTIONS[1], tokens_max=16, sampling=sampling)
        for cut in (1, len(complete.tokens) // 2, len(complete.tokens)):
            resume = tuple(complete.tokens[:cut])
            rest = await client.ask(f"{cut}", QUESTIONS[1], tokens_max=16, sampling=sampling, resume=resume)
            assert complete.tokens == [*resume, *rest.tokens]
            assert complete.text.endswith(rest.text)
            assert rest.last.completion_tokens == complete.last.completion_tokens
            assert rest.last.reason == complete.last.reason


async def test_requests_with_different_sampling_do_not_disturb_each_other(group: Group, tiny: Path) -> None:
    async with connected(group.socket) as client:
        alone = await client.ask("alone", QUESTIONS[2], tokens_max=12, sampling=DRAWN)
        greedy, drawn, hot = await asyncio.gather(
            client.ask("greedy", QUESTIONS[0], tokens_max=12),
            client.ask("drawn", QUESTIONS[2], tokens_max=12, sampling=DRAWN),
            client.ask("hot", QUESTIONS[3], tokens_max=16, sampling=Sampling(temperature=5.0, top_k=10**9)),
        )
        assert greedy.tokens == greedy_tokens(tiny, list(greedy.prompt), 12)
        assert drawn.tokens == alone.tokens
        assert isinstance(hot.last, Finished)
    steps = {rank.process.poll() for rank in group.ranks}
    assert steps == {None}


def zero_tensor(file: Path, name: str) -> None:
    """Overwrite one tensor of a safetensors file with zeros, in place."""
    content = bytearray(file.read_bytes())
    start = 8 + struct.unpack_from("<Q", content)[0]
    begin, end = json.loads(content[8:start])[name]["data_offsets"]
    content[start + begin : start + end] = bytes(end - begin)
    file.write_bytes(content)


async def test_rank_0_decides_where_another_rank_computes_something_else(
    endless: Path, tmp_path: Path
) -> None:
    """The second rank's final norm is zero: by itself it would say the end token, and nothing else."""
    crooked = Path(shutil.copytree(endless, tmp_path / "crooked"))
    zero_tensor(crooked / "model.safetensors", "model.norm.weight")
    with short_directory() as directory:
        first, second = configs(endless, directory, 2)
        other = dataclasses.replace(second, model_path=str(crooked))
        with Rank(first, directory) as leader, Rank(other, directory) as follower:
            group = await asyncio.to_thread(Group([leader, follower], first.socket).ready)
            async with connected(group.socket) as client:
                greedy = await client.ask("a", "Tell me", tokens_max=16)
                drawn = await client.ask("b", "Tell me", tokens_max=16, sampling=Sampling(temperature=0.5))
            assert greedy.tokens == greedy_tokens(endless, list(greedy.prompt), 16)
            assert len(drawn.tokens) > 1
            await asyncio.to_thread(leader.wait_until, lambda report: report.demand == 0)
            done = leader.last.steps
            await asyncio.to_thread(follower.wait_until, lambda report: report.steps >= done)
            assert follower.last.steps == done


def assert_scored(events: list[Any], tokens: list[int], model: Path) -> None:
    """Every token of a prompt was told of once, with what one process says of it."""
    parts = [event for event in events if isinstance(event, Scored)]
    found = [one.chosen for part in parts for one in part.tokens]
    assert [part.first for part in parts[:2]] == [0, 1]
    assert [one.token for one in found] == tokens
    assert [one.logprob for one in found[1:]] == pytest.approx(token_logprobs(model, tokens), abs=1e-3)


async def test_a_scored_prompt_has_the_figures_of_one_process(group: Group, tiny: Path) -> None:
    """The last prompt is longer than a step reads."""
    lengths = (40, 60, SCORED_PER_STEP + 30)
    prompts = [[(11 * at + number) % 290 for at in range(length)] for number, length in enumerate(lengths)]
    async with connected(group.socket) as client:
        replies = await asyncio.gather(
            *(
                client.ask(str(most), "", messages=(), prompt_tokens=tuple(tokens), tokens_max=most, scores=2)
                for most, tokens in enumerate(prompts)
            ),
            client.ask("other", QUESTIONS[0], tokens_max=12),
        )
    for most, (tokens, reply) in enumerate(zip(prompts, replies, strict=False)):
        assert_scored(reply.events, tokens, tiny)
        assert (len(reply.tokens), reply.last.completion_tokens) == (most, most)
    assert replies[-1].tokens == greedy_tokens(tiny, list(replies[-1].prompt), 12)


async def test_a_pipeline_says_the_same_as_one_process(layered: Path) -> None:
    with running(layered, 2, strategy="pipeline") as group:
        await asyncio.to_thread(group.ready)
        async with connected(group.socket) as client:
            reply = await client.ask("a", "Tell me", tokens_max=40)
            scored = await client.ask("b", "Tell me", tokens_max=0, scores=0)
        assert group.terminate() == [0, 0]
    assert_scored(scored.events, list(scored.prompt), layered)
    assert len(set(reply.tokens)) > 5
    assert reply.tokens == greedy_tokens(layered, list(reply.prompt), 40)
