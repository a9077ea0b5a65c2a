"""Rank 0's loop on a real model, in this process."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import mlx.core as mx

from reconciler.runner.decode.answer import Answer
from reconciler.runner.decode.batch import Batch, Pulse
from reconciler.runner.decode.inbox import Inbox, Ticket
from reconciler.runner.decode.lanes import Lanes
from reconciler.runner.decode.leader import Leader, is_last
from reconciler.runner.decode.prefixes import Prefixes
from reconciler.runner.decode.reuse import Reuse
from reconciler.runner.decode.sampling import Agreement
from reconciler.runner.forms.matching import Matcher
from reconciler.runner.model.adapter import Loaded
from reconciler.runner.model.caches import footprint
from reconciler.runner.model.generator import Generator
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.group import KeepAlive, Step
from reconciler.wire.sampling import BY_MODEL, Ending, Sampling
from tests.runner.ranks import GREEDY, Reply, question

ALONE = Agreement(None, 1).on


def prefix_bytes(batch: Batch) -> int:
    """The memory of its prefix cache."""
    return sum(part.nbytes for cache in batch._entries.values() for part in cache)


def cache_bytes(batch: Batch) -> int:
    """The memory of its sequences."""
    generator = batch._generator
    batches: list[Any] = [prompt.batch for prompt in generator._prompts.values() if prompt.batch]
    return sum(part.nbytes for each in [*batches, *generator._lanes.values()] for part in each.prompt_cache)


class Loop:
    """Rank 0's loop without a socket: tickets in, events out."""

    def __init__(
        self, loaded: Loaded, batch_max: int = 4, prefix_bytes: int = 0, cache_bytes: int | None = None
    ) -> None:
        self.steps: list[Step] = []
        self.beats = 0
        self.events: dict[str, list[Any]] = {}
        self.tickets: list[Ticket] = []
        self.cancelled_at = 0
        """The step after which all requests are cancelled; 0 for none."""
        self._tokenizer = loaded.tokenizer
        progress = ProgressPipe(None)
        self.inbox = Inbox(100, progress)
        self.batch = Batch(Generator(loaded, ALONE, keeps=True), progress)
        found = footprint(loaded.model, None)
        self.prefixes = Prefixes(found, prefix_bytes)
        reuse = Reuse(self.prefixes, loaded.tokenizer.end_ids)
        self.lanes = Lanes(found, () if cache_bytes is None else (cache_bytes,))
        self._leader = Leader(self.batch, batch_max, self.inbox, self._share, reuse, self.lanes)

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
        pulse = Pulse(mx.distributed.init(), 0.02)
        thread = threading.Thread(target=self._leader.serve, args=(self._post, pulse))
        thread.start()
        deadline = time.monotonic() + 30
        while self.beats < beats and time.monotonic() < deadline:
            time.sleep(0.01)
        self.inbox.drain()
        thread.join(60)
        assert not thread.is_alive()

    def put(
        self,
        name: str,
        kind: type[Answer] = Answer,
        prompt: int | Sequence[int] = 10,
        tokens_max: int = 20,
        sampling: Sampling = GREEDY,
        resume: Sequence[int] = (),
        ending: Ending = BY_MODEL,
        logprobs: int | None = None,
        scores: int | None = None,
        stop: Sequence[str] = (),
        client: str = "",
        matcher: Matcher | None = None,
    ) -> None:
        """``tokens_max`` counts those of ``resume`` as well."""
        assert self.inbox.open() == ""
        tokens = [5] * prompt if isinstance(prompt, int) else list(prompt)
        asked = question(
            name, "", resume=tuple(resume), ending=ending, logprobs=logprobs, stop=tuple(stop), scores=scores
        )
        ticket = Ticket(
            name,
            (*tokens, *resume),
            tokens_max - len(resume),
            len(resume),
            sampling,
            kind(asked, tokens, self._tokenizer),
            ending=ending,
            logprobs=logprobs,
            scores=scores,
            client=client,
            matcher=matcher,
        )
        self.tickets.append(ticket)
        self.inbox.submit(ticket)

    def ask(self, name: str, prompt: Sequence[int], **fields: Any) -> Reply:
        """The whole answer; within ``serving``."""
        self.put(name, prompt=prompt, **fields)
        return self.reply(name)

    def reply(self, name: str) -> Reply:
        deadline = time.monotonic() + 60
        while not any(map(is_last, self.events.get(name, []))):
            assert time.monotonic() < deadline, f"no end of {name}"
            assert self._thread.is_alive(), "the loop has ended"
            time.sleep(0.001)
        return Reply(self.events[name])

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """The loop runs within the block."""
        self._thread = threading.Thread(target=self._leader.serve, args=(self._post,), daemon=True)
        self._thread.start()
        yield
        self.inbox.drain()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def run(self) -> None:
        """Until all is answered."""
        with self.serving():
            pass

    def _post(self, events: Mapping[Any, Sequence[object]]) -> None:
        for name, new in events.items():
            self.events.setdefault(name, []).extend(new)
