"""A rank computes no more sequences at a time, and takes no more memory for them, than was planned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.runner.decode.lanes import HEADROOM
from reconciler.runner.model.adapter import Loaded
from reconciler.runner.model.caches import footprint
from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.wire.generation import Finished
from reconciler.wire.group import KeepAlive, Step
from reconciler.wire.launch import CACHE_STEP
from reconciler.wire.sampling import Sampling
from tests.runner.ranks import GREEDY, Reply

from .loop import Loop, cache_bytes

DRAWN = Sampling(seed=5, repetition_penalty=1.1, presence_penalty=0.3)


@pytest.fixture(scope="module")
def loaded(endless: Path) -> Loaded:
    return load_shard(inspect(str(endless)), None, "tensor", trust_remote_code=False)


class Watched(Loop):
    """Sees before every step what the caches of all sequences take."""

    def __init__(self, loaded: Loaded, tokens: int) -> None:
        """``tokens``: for so many of one sequence there is room."""
        self.most = 0
        self.room = footprint(loaded.model, None).bytes(tokens)
        super().__init__(loaded, batch_max=16, cache_bytes=self.room)

    def _share(self, order: Step | KeepAlive) -> None:
        super()._share(order)
        self.most = max(self.most, cache_bytes(self.batch))


def words(seed: int, count: int) -> list[int]:
    return [2 + (seed * 7919 + at * at * 31 + at) % 250 for at in range(count)]


def alone(loaded: Loaded, prompt: Sequence[int], tokens_max: int, sampling: Sampling = GREEDY) -> Reply:
    loop = Loop(loaded)
    with loop.serving():
        return loop.ask("a", prompt, tokens_max=tokens_max, sampling=sampling)


def test_of_three_requests_the_third_waits_while_two_are_all_that_fit(loaded: Loaded) -> None:
    loop = Loop(loaded, batch_max=2)
    for name in "abc":
        loop.put(name, tokens_max=3)
    loop.run()
    inserted = [len(step.insert) for step in loop.steps if step.insert]
    assert inserted[0] == 2
    assert sum(inserted) == 3
    assert all(isinstance(events[-1], Finished) for events in loop.events.values())


def test_a_long_context_and_fifteen_short_ones_are_answered_together_on_what_they_need(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than half of what sixteen long ones take."""
    monkeypatch.setattr("reconciler.runner.decode.lanes.WASTE_MAX", 0)
    loop = Watched(loaded, 1000 + 16 * (100 + CACHE_STEP) + HEADROOM)
    prompts = {"long": words(1, 1000), **{str(n): words(n, 20 + 5 * n) for n in range(2, 17)}}
    for name, prompt in prompts.items():
        loop.put(name, prompt=prompt, tokens_max=8)
    loop.run()
    assert 0 < loop.most <= loop.room < footprint(loaded.model, None).bytes(1000) * 8
    assert not any(step.remove for step in loop.steps), "none had to give way"
    for name in ("long", "2", "16"):
        assert Reply(loop.events[name]).tokens == alone(loaded, prompts[name], 8).tokens


@pytest.mark.parametrize("at", [2, 4])
@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_who_gives_way_goes_on_with_the_same_answer(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, sampling: Sampling, at: int
) -> None:
    loop = Loop(loaded)
    prompts = {name: words(number, 20) for number, name in enumerate("ab")}
    for name, prompt in prompts.items():
        loop.put(name, prompt=prompt, tokens_max=6, sampling=sampling)
    step = loop.lanes.step
    monkeypatch.setattr(loop.lanes, "step", lambda: [*step(), *([1] if len(loop.steps) == at else [])])
    loop.run()
    assert [uid for step in loop.steps for uid in step.remove] == [1]
    for name, prompt in prompts.items():
        expected, reply = alone(loaded, prompt, 6, sampling), Reply(loop.events[name])
        assert (reply.tokens, reply.text, reply.last) == (
            expected.tokens,
            expected.text,
            replace(expected.last, request=name),
        )


@pytest.mark.second_tier
@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_who_has_to_wait_for_memory_in_the_middle_of_an_answer_goes_on_with_it(
    loaded: Loaded, sampling: Sampling
) -> None:
    prompts = {name: words(number, 100) for number, name in enumerate("abc")}
    loop = Watched(loaded, 3 * (100 + CACHE_STEP) + HEADROOM + 30)
    for name, prompt in prompts.items():
        loop.put(name, prompt=prompt, tokens_max=150, sampling=sampling)
    loop.run()
    gone = [uid for step in loop.steps for uid in step.remove]
    again = [insertion for step in loop.steps[1:] for insertion in step.insert]
    assert gone
    assert len(again) == len(gone)
    assert all(insertion.position > 0 for insertion in again)
    assert loop.most <= loop.room
    for name, prompt in prompts.items():
        expected, reply = alone(loaded, prompt, 150, sampling), Reply(loop.events[name])
        assert reply.tokens == expected.tokens
        assert reply.text == expected.text
        assert reply.last.completion_tokens == expected.last.completion_tokens
        assert reply.last.prompt_tokens == expected.last.prompt_tokens


def test_who_waits_for_memory_is_cancelled_like_any_other(loaded: Loaded) -> None:
    loop = Watched(loaded, 2 * (100 + CACHE_STEP) + HEADROOM)
    loop.cancelled_at = 60
    for number, name in enumerate("abc"):
        loop.put(name, prompt=words(number, 100), tokens_max=1000)
    loop.run()
    assert {events[-1].reason for events in loop.events.values()} == {"cancelled"}
    assert not loop.lanes._lanes


def test_requests_too_large_for_what_is_left_wait_and_hold_up_those_behind_them(loaded: Loaded) -> None:
    loop = Watched(loaded, 1800)
    for name, length in (("first", 400), ("large", 900), ("behind", 20)):
        loop.put(name, prompt=words(1, length), tokens_max=20)
    loop.run()
    assert [step.number for step in loop.steps if step.insert] == [0, 21]
    assert loop.most <= loop.room
