"""The batch and rank 0's loop, in one process on a real model."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from reconciler.runner.decode import leader as leader_module
from reconciler.runner.decode.answer import Answer
from reconciler.runner.decode.batch import Batch
from reconciler.runner.decode.follower import follow_steps
from reconciler.runner.decode.inbox import Inbox, Ticket
from reconciler.runner.decode.keep_alive import Pulse
from reconciler.runner.decode.leader import Leader
from reconciler.runner.decode.sampling import Agreement, sampler
from reconciler.runner.model.adapter import PREFILL_TOKENS, Generator, Loaded, Tokenizer
from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.runner.process.ending import RankEnd
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.codec import to_wire
from reconciler.wire.generation import Failed, Finished, Sampling
from reconciler.wire.group import Insertion, KeepAlive, Leave, Step
from reconciler.wire.launch import ExitCode
from tests.runner.ranks import GREEDY, question

ALONE = Agreement(None, 1).on


@pytest.fixture(scope="module")
def loaded(endless: Path) -> Loaded:
    return load_shard(inspect(str(endless)), None, "tensor", trust_remote_code=False)


def test_new_prompts_together_are_read_in_steps_no_longer_than_one_alone(loaded: Loaded) -> None:
    generator = Generator(loaded, 16, ALONE)
    for _ in range(10):
        generator.insert([5] * 200, 2, sampler(GREEDY, 0))
    done: dict[int, int] = {}
    ended = 0
    while ended < 10:
        before = sum(done.values())
        read, tokens = generator.step()
        done.update((part.uid, part.done) for part in read)
        assert sum(done.values()) - before <= PREFILL_TOKENS
        ended += sum(bool(token.ended) for token in tokens)
    assert done == dict.fromkeys(range(10), 200)


def test_ranks_agree_once_on_all_rows_of_a_step(loaded: Loaded) -> None:
    rows: list[int] = []

    def agree(tokens: Any) -> Any:
        rows.append(tokens.shape[0])
        return tokens

    generator = Generator(loaded, 8, agree)
    for seed in range(4):
        generator.insert([5, 6, 7], 50, sampler(Sampling(seed=seed), 0))
    for _ in range(3):
        generator.step()
    rows.clear()
    _, tokens = generator.step()
    assert len(tokens) == 4
    assert rows == [4]


class Loop:
    """Rank 0's loop without a socket: tickets in, events out."""

    def __init__(self, loaded: Loaded, batch_max: int = 4) -> None:
        self.steps: list[Step] = []
        self.beats = 0
        self.events: dict[str, list[Any]] = {}
        self.tickets: list[Ticket] = []
        self.cancelled_at = 0
        """The step after which all requests are cancelled; 0 for none."""
        self._tokenizer = loaded.tokenizer
        progress = ProgressPipe(None)
        self.inbox = Inbox(100, progress)
        batch = Batch(Generator(loaded, batch_max, ALONE), progress)
        self._leader = Leader(batch, batch_max, self.inbox, self._share)

    def _share(self, order: Step | KeepAlive) -> None:
        if isinstance(order, Step):
            self.steps.append(order)
            for ticket in self.tickets if len(self.steps) == self.cancelled_at else ():
                self.inbox.cancel(ticket)
        else:
            self.beats += 1
            assert order.number == len(self.steps)

    def rest(self, beats: int) -> None:
        """Be idle until there were so many signs of life."""
        pulse = Pulse(None, 0.02)
        thread = threading.Thread(target=self._leader.serve, args=(self._post, pulse))
        thread.start()
        deadline = time.monotonic() + 30
        while self.beats < beats and time.monotonic() < deadline:
            time.sleep(0.01)
        self.inbox.drain()
        thread.join(60)
        assert not thread.is_alive()

    def put(self, name: str, kind: type[Answer] = Answer, prompt: int = 10, tokens_max: int = 20) -> None:
        assert self.inbox.open() == ""
        tokens = [5] * prompt
        answer = kind(question(name, ""), tokens, self._tokenizer)
        self.tickets.append(Ticket(name, tuple(tokens), tokens_max, 0, GREEDY, answer))
        self.inbox.submit(self.tickets[-1])

    def run(self) -> None:
        """Until all is answered."""
        self.inbox.drain()
        thread = threading.Thread(target=self._leader.serve, args=(self._post,))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    def _post(self, events: Mapping[Any, Sequence[object]]) -> None:
        for name, new in events.items():
            self.events.setdefault(name, []).extend(new)


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
    batch = Batch(Generator(loaded, 4, ALONE), progress)
    for order in (KeepAlive(0), Leave("over")):
        orders.put(to_wire(order))
    assert follow_steps(orders, batch, progress, lambda: None, Pulse(None, 60.0)) == "over"
    orders.put(to_wire(KeepAlive(3)))
    with pytest.raises(RankEnd, match="at step 0, rank 0 asked") as end:
        follow_steps(orders, batch, progress, lambda: None, Pulse(None, 60.0))
    assert end.value.code == ExitCode.DIVERGED


class Unreadable(Answer):
    """An answer whose third token the model's own code cannot take."""

    def take(self, token: int) -> None:
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

    def take(self, token: int) -> None:
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
    loop = Loop(loaded)
    for name in "abc":
        loop.put(name, prompt=20)
    loop.run()
    assert [len(step.insert) for step in loop.steps[:3]] == [1, 1, 1]
    assert all(isinstance(events[-1], Finished) for events in loop.events.values())


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
    batch = Batch(Generator(loaded, 4, ALONE), progress)
    step_tokens = []
    insert: tuple[Insertion, ...] = (Insertion((5,) * (PREFILL_TOKENS + 100), 4, GREEDY),)
    while insert or batch.live:
        batch.run(Step(batch.next_step, insert=insert))
        step_tokens.append(progress.step_tokens)
        insert = ()
    assert step_tokens[:2] == [PREFILL_TOKENS, PREFILL_TOKENS + 100]
    assert sorted(step_tokens[2:], reverse=True) == step_tokens[2:], "what has been read is read once"
    assert step_tokens[-1] == 0
