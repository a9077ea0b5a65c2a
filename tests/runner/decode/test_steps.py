"""The batch and rank 0's loop, in one process on a real model."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import mlx.core as mx
import pytest

from reconciler.runner.decode import leader as leader_module
from reconciler.runner.decode import pacing
from reconciler.runner.decode.answer import Answer
from reconciler.runner.decode.batch import Batch, Pulse
from reconciler.runner.decode.follower import follow_steps
from reconciler.runner.decode.inbox import Inbox, Ticket
from reconciler.runner.decode.lanes import Lanes
from reconciler.runner.decode.leader import Leader
from reconciler.runner.decode.prefixes import Prefixes
from reconciler.runner.decode.reuse import Reuse
from reconciler.runner.decode.sampling import sampler
from reconciler.runner.model.adapter import Loaded, Tokenizer
from reconciler.runner.model.agreed_batch import Choice, Logprobs
from reconciler.runner.model.caches import NOT, footprint
from reconciler.runner.model.files import inspect
from reconciler.runner.model.generator import Generator
from reconciler.runner.model.loading import load_shard
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.codec import to_wire
from reconciler.wire.generation import Failed, Finished
from reconciler.wire.group import Insertion, Joined, KeepAlive, Leave, Reading, Step
from reconciler.wire.launch import ExitCode, Phase, RankEnd
from reconciler.wire.sampling import Sampling
from tests.runner.ranks import GREEDY, question

from .loop import ALONE, Loop


@pytest.fixture(scope="module")
def loaded(endless: Path) -> Loaded:
    return load_shard(inspect(str(endless)), None, "tensor", trust_remote_code=False)


def test_ranks_agree_once_on_all_rows_of_a_step(loaded: Loaded) -> None:
    rows: list[int] = []

    def agree(tokens: Any) -> Any:
        rows.append(tokens.shape[0])
        return tokens

    generator = Generator(loaded, agree)
    for seed in range(4):
        generator.insert([5, 6, 7], 50, Choice(sampler(Sampling(seed=seed), 0)))
    generator.step([Reading((0, 1, 2, 3))])
    rows.clear()
    _, tokens = generator.step()
    assert len(tokens) == 4
    assert rows == [4]


def test_an_idle_group_does_a_collective_now_and_then_and_one_that_answers_does_not(loaded: Loaded) -> None:
    loop = Loop(loaded)
    loop.rest(beats=3)
    assert (loop.beats >= 3, loop.steps) == (True, [])
    busy = Loop(loaded)
    busy.put("a", tokens_max=3)
    busy.run()
    assert busy.beats == 0


def test_a_rank_that_is_at_another_step_than_rank_0_does_no_collective(loaded: Loaded) -> None:
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    progress = ProgressPipe(None)
    batch = Batch(Generator(loaded, ALONE), progress)
    for order in (KeepAlive(0), Leave("over")):
        orders.put(to_wire(order))
    assert follow_steps(orders, batch, progress, lambda: None, Pulse(mx.distributed.init(), 60.0)) == "over"
    orders.put(to_wire(KeepAlive(3)))
    with pytest.raises(RankEnd, match="at step 0, rank 0 asked") as end:
        follow_steps(orders, batch, progress, lambda: None, Pulse(mx.distributed.init(), 60.0))
    assert end.value.code == ExitCode.DIVERGED


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [(to_wire(Joined("", ())), "sent Joined instead of a step"), ({"kind": "Nothing"}, "an invalid order")],
)
def test_a_rank_that_is_told_no_step_ends(loaded: Loaded, frame: dict[str, Any], sentence: str) -> None:
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    orders.put(frame)
    progress = ProgressPipe(None)
    with pytest.raises(RankEnd, match=sentence) as end:
        follow_steps(orders, Batch(Generator(loaded, ALONE), progress), progress, lambda: None)
    assert end.value.code == ExitCode.DIVERGED


def test_a_rank_is_ready_once_when_the_first_completion_of_its_group_is_over(loaded: Loaded) -> None:
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    rank_0 = ProgressPipe(None)
    leader = Leader(
        Batch(Generator(loaded, ALONE), rank_0),
        4,
        Inbox(1, rank_0),
        lambda step: orders.put(to_wire(step)),
        Reuse(Prefixes(footprint(loaded.model, None), 0), loaded.tokenizer.end_ids),
        Lanes(footprint(loaded.model, None), ()),
    )
    for _ in range(2):
        leader.warm([5], 2)
    orders.put(to_wire(Leave("over")))
    progress = ProgressPipe(None)
    batch = Batch(Generator(loaded, ALONE), progress)
    progress.enter(Phase.WARM)
    ready_at: list[int] = []

    def ready() -> None:
        ready_at.append(batch.next_step)
        progress.enter(Phase.READY)

    assert follow_steps(orders, batch, progress, ready) == "over"
    assert ready_at == [batch.next_step // 2]


def test_a_rank_reports_what_it_has_to_do_in_a_step_and_what_is_left_after_it(loaded: Loaded) -> None:
    told: list[tuple[int, int]] = []

    class Told(ProgressPipe):
        def demand(self, count: int) -> None:
            told.append((batch.next_step, count))

    progress = Told(None)
    batch = Batch(Generator(loaded, ALONE), progress)
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    two = (Insertion((5,), 1, GREEDY), Insertion((6,), 2, GREEDY))
    for order in (Step(0, insert=two, read=(Reading((0, 1)),)), Step(1), Step(2), Leave("over")):
        orders.put(to_wire(order))
    assert follow_steps(orders, batch, progress, lambda: None) == "over"
    assert told == [(0, 2), (1, 2), (1, 2), (2, 1), (2, 1), (3, 0)]


def test_a_model_that_cannot_tell_what_a_prompt_takes_reuses_nothing(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def secretive(*_: object, **__: object) -> None:
        raise ValueError("how much it keeps depends on what it computes")

    monkeypatch.setattr(type(loaded.model), "__call__", secretive)
    found = footprint(loaded.model, None)
    assert (found.reuse, found.ranks) == (NOT, ((),))
    assert found.why == "mlx-lm cannot tell without computing how much memory a prompt takes"


class Unreadable(Answer):
    """An answer whose third token the model's own code cannot take."""

    def take(self, token: int, logprobs: Logprobs | None = None) -> None:
        if self._tokens == 2:
            raise MemoryError("too complex")
        super().take(token)


def test_an_answer_that_cannot_be_read_fails_alone_and_is_not_tried_elsewhere(
    loaded: Loaded, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Loop(loaded)
    loop.put("bad", Unreadable)
    loop.put("good")
    loop.run()
    failed = loop.events["bad"][-1]
    assert isinstance(failed, Failed)
    assert failed.code == "invalid_request"
    assert "too complex" in caplog.text
    finished = loop.events["good"][-1]
    assert isinstance(finished, Finished)
    assert finished.completion_tokens == 20
    assert any(step.remove == (0,) for step in loop.steps)


class Stopping(Answer):
    """An answer whose third token completes a stop string."""

    def take(self, token: int, logprobs: Logprobs | None = None) -> None:
        super().take(token)
        self.stopped = self._tokens == 3


def test_of_answers_that_stop_in_one_step_every_rank_is_told(loaded: Loaded) -> None:
    loop = Loop(loaded)
    for name in "ab":
        loop.put(name, Stopping)
    loop.put("goes-on")
    loop.run()
    assert [step.remove for step in loop.steps if step.remove] == [(0, 1)]
    ends = {name: events[-1] for name, events in loop.events.items()}
    assert [(name, end.reason, end.completion_tokens) for name, end in sorted(ends.items())] == [
        ("a", "stop", 3),
        ("b", "stop", 3),
        ("goes-on", "length", 20),
    ]


def test_an_answer_that_stops_just_before_its_end_is_removed_by_nobody(loaded: Loaded) -> None:
    """The batch ends it while its text is read."""
    loop = Loop(loaded)
    loop.put("a", Stopping, tokens_max=4)
    loop.put("goes-on")
    loop.run()
    assert not [step.remove for step in loop.steps if step.remove]
    assert [loop.events[name][-1].completion_tokens for name in ("a", "goes-on")] == [3, 20]


def test_the_next_step_is_said_before_the_text_of_the_last_is_read(loaded: Loaded) -> None:
    said: list[int] = []

    class Watching(Answer):
        def take(self, token: int, logprobs: Logprobs | None = None) -> None:
            said.append(len(loop.steps))
            super().take(token)

    loop = Loop(loaded)
    loop.put("a", Watching, tokens_max=6)
    loop.run()
    assert said == [3, 4, 5, 6, 7, 7]
    assert loop.events["a"][-1].completion_tokens == 6


def test_requests_that_are_cancelled_at_once_all_end_at_once(loaded: Loaded) -> None:
    loop = Loop(loaded, batch_max=3)
    loop.cancelled_at = 4
    for name in "abcd":  # the last one waits for room
        loop.put(name, tokens_max=500)
    loop.run()
    assert [events[-1].reason for events in loop.events.values()] == ["cancelled"] * 4
    assert [step.remove for step in loop.steps if step.remove] == [(0, 1, 2)]


def test_prompts_that_would_make_a_step_too_long_to_say_wait_for_the_next(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_module, "PROMPT_TOKENS_PER_STEP", 30)
    monkeypatch.setattr(pacing, "TOKENS_MIN", 64)  # whole prompts, however long the step before took
    loop = Loop(loaded)
    for name in "abc":
        loop.put(name, prompt=20)
    loop.run()
    assert [len(step.insert) for step in loop.steps[:3]] == [1, 1, 1]
    assert all(isinstance(events[-1], Finished) for events in loop.events.values())


def test_what_penalties_count_has_to_be_said_too(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "PROMPT_TOKENS_PER_STEP", 30)
    inserted = []
    for penalty in (1.0, 1.1):
        loop = Loop(loaded)
        for name in "ab":
            loop.put(name, prompt=range(2, 14), sampling=Sampling(repetition_penalty=penalty))
        loop.run()
        inserted.append([len(step.insert) for step in loop.steps[:2]])
    assert inserted == [[2, 0], [1, 1]]


def test_a_request_that_is_being_read_is_open_but_no_step_is_owed_to_it(loaded: Loaded) -> None:
    reading, writing = os.pipe()  # the latter stays open: its thread may still have something to say
    with os.fdopen(reading) as lines:
        progress = ProgressPipe(writing)

        def demand() -> int:
            mark = f"looked at {time.monotonic()}"
            progress.report_detail(mark)
            while (report := json.loads(lines.readline()))["detail"] != mark:
                pass
            return int(report["demand"])

        inbox = Inbox(2, progress)
        assert [inbox.open(), inbox.open(), inbox.open()] == ["", "", "overloaded"]
        assert demand() == 0
        answer = Answer(question("a", ""), [5], loaded.tokenizer)
        inbox.submit(Ticket("a", (5,), 1, 0, GREEDY, answer))
        assert demand() == 1
        inbox.drain()
        inbox.close(1)
        assert demand() == 0
        assert not inbox.collect(sleep=False).draining
        inbox.abandon()
        assert inbox.collect(sleep=True).draining


def test_prompts_are_rendered_as_the_models_own_template_renders_them(
    endless_tokenizer: Tokenizer,
) -> None:
    text = endless_tokenizer.render([{"role": "user", "content": "hi"}], [])
    assert text == "<|start|>user:hi<|end|><|start|>assistant:"
    assert endless_tokenizer.rendered(text)[:1] == [1]


def test_a_rank_says_how_many_tokens_of_prompts_its_steps_read(loaded: Loaded) -> None:
    """A step that reads may take longer than one that decodes: by so much."""
    progress = ProgressPipe(None)
    batch = Batch(Generator(loaded, ALONE), progress)
    step_tokens = []
    insert = (Insertion((5,) * 612, 4, GREEDY),)
    for step in (Step(0, insert=insert, read=(Reading((0,), 512),)), Step(1, read=(Reading((0,)),))):
        batch.run(step)
        step_tokens.append(progress.step_tokens)
    while batch.live:
        batch.run(Step(batch.next_step))
        step_tokens.append(progress.step_tokens)
    assert step_tokens == [512, 612, 100, 0, 0, 0], "what may not be finished counts for one step more"
