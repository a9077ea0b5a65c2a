"""What requests say of their tokens, on a real model: each changes the answer as it should, however it was read."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from reconciler.runner.decode.batch import Batch, Own
from reconciler.runner.model.adapter import Loaded
from reconciler.runner.model.files import inspect
from reconciler.runner.model.generator import Generator
from reconciler.runner.model.loading import load_shard
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.generation import Delta, TokenLogprobs
from reconciler.wire.group import Insertion, Reading, Seen, Step
from reconciler.wire.sampling import Ending, Sampling
from tests.runner.conftest import adjusted_tokens
from tests.runner.ranks import GREEDY, Reply

from .loop import ALONE, Loop
from .test_adjustment import plain

PROMPT = [7, 40, 9, 12, 40, 7, 33, 33, 90, 41] * 4
COUNT = 24
ROOM = 1 << 24
PENALTIES = {
    "repetition": Sampling(temperature=0.0, repetition_penalty=1.4),
    "frequency": Sampling(temperature=0.0, frequency_penalty=0.7),
    "presence": Sampling(temperature=0.0, presence_penalty=1.5),
    "all": Sampling(temperature=0.0, repetition_penalty=1.2, frequency_penalty=-0.2, presence_penalty=0.9),
}
DRAWN = Sampling(temperature=1.2, seed=5, repetition_penalty=1.2, frequency_penalty=0.5)


@pytest.fixture(scope="module")
def loaded(layered: Path) -> Loaded:
    loaded = load_shard(inspect(str(layered)), None, "tensor", trust_remote_code=False)
    mx.eval(loaded.model(mx.array([[5]])))  # what it computes once, in the thread that made it
    return loaded


def answer(loaded: Loaded, **fields: Any) -> Reply:
    loop = Loop(loaded)
    with loop.serving():
        return loop.ask("a", PROMPT, **{"tokens_max": COUNT, "sampling": GREEDY, **fields})


Alone = Callable[[Sampling], Reply]


@pytest.fixture(scope="module")
def alone(loaded: Loaded) -> Alone:
    """The answer to a request that is alone and asks for nothing but its sampling."""
    return functools.cache(lambda sampling: answer(loaded, sampling=sampling))


@pytest.mark.parametrize("kind", PENALTIES)
def test_a_penalty_counts_the_tokens_of_prompt_and_answer(alone: Alone, layered: Path, kind: str) -> None:
    sampling = PENALTIES[kind]
    adjust = functools.partial(_adjusted, sampling, Ending())
    expected = adjusted_tokens(layered, PROMPT, COUNT, adjust)
    assert alone(sampling).tokens == expected
    assert alone(GREEDY).tokens != expected


def _adjusted(sampling: Sampling, ending: Ending, logits: Any, said: list[int]) -> list[float]:
    return plain(logits, sampling, ending, PROMPT, said)


@pytest.mark.parametrize("sampling", [*PENALTIES.values(), DRAWN], ids=[*PENALTIES, "drawn"])
def test_an_answer_goes_on_after_a_loss_and_after_a_hit_as_if_there_had_been_none(
    loaded: Loaded, alone: Alone, sampling: Sampling
) -> None:
    whole = alone(sampling).tokens
    loop = Loop(loaded, prefix_bytes=ROOM)
    with loop.serving():
        for cut in (0, 1, COUNT // 2, COUNT - 1):
            resume = whole[:cut]
            reply = loop.ask(str(cut), PROMPT, tokens_max=COUNT, sampling=sampling, resume=resume)
            assert resume + reply.tokens == whole
        assert reply.last.cached_tokens == len(PROMPT)


def test_penalties_of_one_do_not_disturb_the_others(loaded: Loaded, alone: Alone) -> None:
    asked = {"none": GREEDY, **PENALTIES, "drawn": DRAWN, "also drawn": Sampling(seed=3)}
    loop = Loop(loaded, batch_max=8)
    lengths = {name: COUNT - 3 * place for place, name in enumerate(asked)}
    for name, sampling in asked.items():
        loop.put(name, prompt=PROMPT, tokens_max=lengths[name], sampling=sampling)
    loop.run()
    for name, sampling in asked.items():
        expected = alone(sampling).tokens[: lengths[name]]
        assert Reply(loop.events[name]).tokens == expected, name


def test_a_stop_token_ends_an_answer_and_is_no_part_of_it(loaded: Loaded, alone: Alone) -> None:
    said = alone(GREEDY).tokens
    reply = answer(loaded, ending=Ending(stop_tokens=(said[9], 3)))
    assert _said(reply) == said[: said.index(said[9])]
    assert reply.last.reason == "stop"
    assert alone(GREEDY).text.startswith(reply.text)


def test_no_token_that_could_end_it_comes_before_the_least_number_of_tokens(
    loaded: Loaded, alone: Alone, layered: Path
) -> None:
    said = alone(GREEDY).tokens
    ending = Ending(tokens_min=15, stop_tokens=(said[4],))
    reply = answer(loaded, ending=ending)
    adjust = functools.partial(_adjusted, GREEDY, ending)
    whole = adjusted_tokens(layered, PROMPT, COUNT, adjust)
    assert said[4] not in whole[:15]
    assert _said(reply) == (whole[: whole.index(said[4])] if said[4] in whole else whole)
    cut = answer(loaded, ending=ending, resume=whole[:6])
    assert whole[:6] + cut.tokens == reply.tokens


def test_no_stop_string_is_looked_for_before_the_least_number_of_tokens(loaded: Loaded, alone: Alone) -> None:
    whole = alone(GREEDY)
    stop = whole.text[2]
    early = answer(loaded, stop=[stop])
    assert whole.text.startswith(early.text + stop)
    late = answer(loaded, stop=[stop], ending=Ending(tokens_min=8))
    assert len(late.tokens) > 8
    assert whole.text.startswith(late.text)
    assert stop in late.text


def test_an_answer_goes_on_after_the_end_token_where_that_is_ignored(loaded: Loaded, alone: Alone) -> None:
    said = alone(GREEDY).tokens
    tokenizer = copy.copy(loaded.tokenizer)
    tokenizer.end_ids = frozenset([said[5]])
    ends = dataclasses.replace(loaded, tokenizer=tokenizer)
    assert _said(answer(ends)) == said[: said.index(said[5])]
    ignored = answer(ends, ending=Ending(ignore_end=True))
    assert (ignored.tokens, ignored.last.reason) == (said, "length")
    stopped = answer(ends, ending=Ending(ignore_end=True, stop_tokens=(said[9],)))
    assert _said(stopped) == said[: said.index(said[9])]


def _said(reply: Reply) -> list[int]:
    """Without the token that ended the answer, which is reported where text was held back."""
    return reply.tokens[: reply.last.completion_tokens]


def test_logprobs_are_those_of_the_model_whatever_was_asked_of_it(loaded: Loaded) -> None:
    for sampling in (GREEDY, PENALTIES["all"], DRAWN):
        reply = answer(loaded, sampling=sampling, logprobs=5)
        reported = _reported(reply)
        assert [one.chosen.token for one in reported] == reply.tokens
        tokens = mx.array([[*PROMPT, *reply.tokens]])
        logits = loaded.model(tokens)[0, len(PROMPT) - 1 : -1].astype(mx.float32)
        expected = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
        places = np.arange(len(reply.tokens))
        chosen = np.array([one.chosen.logprob for one in reported])
        assert np.abs(chosen - expected[places, reply.tokens]).max() <= 1e-4
        likeliest = np.array([[likely.logprob for likely in one.likeliest] for one in reported])
        assert np.abs(likeliest - np.sort(expected)[:, :-6:-1]).max() <= 1e-4
        tokens_of = np.array([[likely.token for likely in one.likeliest] for one in reported])
        assert np.abs(likeliest - expected[places[:, None], tokens_of]).max() <= 1e-4


@pytest.mark.parametrize("count", [0, 1, 20])
def test_as_many_likely_tokens_come_as_each_asks_for(loaded: Loaded, alone: Alone, count: int) -> None:
    loop = Loop(loaded)
    asked = {"a": count, "b": None, "c": 7}
    for name, logprobs in asked.items():
        loop.put(name, prompt=PROMPT, tokens_max=COUNT, logprobs=logprobs)
    loop.run()
    for name, logprobs in asked.items():
        reply = Reply(loop.events[name])
        assert reply.tokens == alone(GREEDY).tokens
        assert [len(one.likeliest) for one in _reported(reply)] == [logprobs] * (
            0 if logprobs is None else len(reply.tokens)
        )


def test_bytes_of_tokens_joined_are_the_text(loaded: Loaded) -> None:
    reply = answer(loaded, sampling=Sampling(seed=3), logprobs=0)
    content = b"".join(bytes(one.chosen.bytes or ()) for one in _reported(reply))
    assert content.decode("utf-8", "replace") == reply.text


def _reported(reply: Reply) -> list[TokenLogprobs]:
    return [one for event in reply.events if isinstance(event, Delta) for one in event.logprobs]


def test_a_rank_that_reports_nothing_says_the_same(loaded: Loaded) -> None:
    insertion = Insertion(tuple(PROMPT), COUNT, DRAWN, seen=Seen(tuple(sorted(set(PROMPT))), ()))
    said = []
    for likeliest in ({0: Own(20)}, None):
        batch = Batch(Generator(loaded, ALONE), ProgressPipe(None))
        tokens = batch.run(Step(0, insert=(insertion,), read=(Reading((0,)),)), likeliest)[1]
        while batch.live:
            tokens += batch.run(Step(batch.next_step))[1]
        said.append([(token.id, token.ended) for token in tokens])
        assert all((token.logprobs is None) == (likeliest is None) for token in tokens)
    assert said[0] == said[1]
