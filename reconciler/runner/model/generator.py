"""Reads and decodes sequences. With ``agreed_batch`` the only module that uses ``mlx_lm``'s batch generation, because its
names change between patch releases.

Written against mlx-lm 0.32.2 and mlx 0.32.4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import mlx.core as mx
from mlx_lm.generate import (
    StopSequences,
    generation_stream,
    maybe_set_recommended_wired_limit,
)
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import greedy_sampler

from reconciler.wire.group import Reading
from reconciler.wire.sampling import Ending

from .adapter import Loaded
from .agreed_batch import Agree, AgreedBatch, Choice, Logprobs, Prompts
from .caches import Cache, first_part, keep

CLEARED_EVERY = 512
"""Steps after which MLX frees the memory that it keeps for later arrays, as in ``BatchGenerator``."""


@dataclasses.dataclass(frozen=True)
class Token:
    """One token of one sequence. ``ended`` is "", ``stop`` (this is an end token) or ``length``."""

    uid: int
    id: int
    ended: str
    logprobs: Logprobs | None = None
    """Present if its sequence reports them."""


@dataclasses.dataclass(frozen=True)
class Read:
    """Prompt tokens of one sequence that have been processed, before a step and after it."""

    uid: int
    before: int
    done: int
    total: int
    logprobs: tuple[Logprobs, ...] = ()
    """Those of the token after each that was read, if its sequence reports them for its prompt."""


@dataclasses.dataclass
class _Prompt:
    """A sequence that is not decoded yet."""

    uid: int
    total: int
    left: list[int]
    tokens_max: int
    choice: Choice
    cache: Cache
    stop: StopSequences
    scored: bool = False
    batch: Prompts | None = None
    """The batch that has read a part of it; replaces ``cache``."""


class Generator:
    """Reads and decodes sequences as it is told, with the parts of ``BatchGenerator`` of mlx-lm. Sequences have uids that
    count from 0.

    ``BatchGenerator`` decides itself what to read, always in one rectangle with all others that are being read, and
    decodes in one rectangle too: a long prompt takes as much memory as there are sequences.
    """

    def __init__(self, loaded: Loaded, agree: Agree, keeps: bool = False) -> None:
        """``keeps``: the caches of sequences that have ended can still be kept before the next step."""
        self._keeps = keeps
        self._ended: dict[int, Cache] = {}
        self.end_ids = loaded.tokenizer.end_ids
        """The model's end tokens."""
        self._model = loaded.model
        self._agree = agree
        self._ends_by_model = _stop_sequences(self.end_ids)
        self._inserted = 0
        self._steps = 0
        self._prompts: dict[int, _Prompt] = {}
        self._lanes: dict[int, AgreedBatch] = {}
        self._wired = maybe_set_recommended_wired_limit()

    def insert(
        self,
        prompt: Sequence[int],
        tokens_max: int,
        choice: Choice,
        read: Cache | None = None,
        ending: Ending | None = None,
        scored: bool = False,
    ) -> int:
        """Add a sequence. Return its uid.

        ``read`` is the cache of the tokens before ``prompt``, which it leaves as it is. ``scored`` is whether every
        rank computes the logits after each token of the prompt that is not read with the last one.
        """
        uid = self._inserted
        self._inserted += 1
        cache = make_prompt_cache(self._model) if read is None else read
        ends = self.end_ids if ending is None else ends_of(ending, self.end_ids)
        stop = self._ends_by_model if ends == self.end_ids else _stop_sequences(ends)
        self._prompts[uid] = _Prompt(uid, len(prompt), list(prompt), tokens_max, choice, cache, stop, scored)
        return uid

    def kept(self, uid: int, dropped: int) -> Cache:
        """Begin to copy the cache of a sequence that has not been removed, or has ended in the last step, without the
        last ``dropped`` of its tokens."""
        with mx.stream(generation_stream):
            return keep(first_part(self._cache(uid), dropped))

    def _cache(self, uid: int) -> Cache:
        if uid in self._ended:
            return self._ended[uid]
        prompt = self._prompts.get(uid)
        if prompt is not None:
            return self._single(prompt)
        lane = next(lane for lane in self._lanes.values() if uid in lane.uids)
        return list(lane.extract_cache(lane.uids.index(uid)))

    def remove(self, uids: Sequence[int]) -> None:
        for uid in uids:
            self._prompts.pop(uid, None)
        for number, lane in tuple(self._lanes.items()):
            keep = [row for row, uid in enumerate(lane.uids) if uid not in uids]
            if not keep:
                del self._lanes[number]
            elif len(keep) < len(lane.uids):
                lane.filter(keep)

    def step(self, readings: Sequence[Reading] = ()) -> tuple[list[Read], list[Token]]:
        """Decode one token of each sequence that is decoded, and then read."""
        self._ended.clear()
        self._steps += 1
        with mx.stream(generation_stream):
            tokens = [token for number in sorted(self._lanes) for token in self._decode(number)]
            if self._steps % CLEARED_EVERY == 0:
                mx.clear_cache()
            read = [part for reading in readings for part in self._read(reading)]
        return read, tokens

    def _decode(self, number: int) -> list[Token]:
        lane = self._lanes[number]
        answered = lane.next()
        if not lane.uids:
            del self._lanes[number]
        if self._keeps:
            self._ended.update((one.uid, one.prompt_cache) for one in answered if one.finish_reason)
        return [
            Token(
                one.uid,
                one.token,
                one.finish_reason or "",
                None if one.logprobs is None else one.logprobs.read(),
            )
            for one in answered
        ]

    def _read(self, reading: Reading) -> list[Read]:
        prompts = [self._prompts[uid] for uid in reading.uids]
        before = [prompt.total - len(prompt.left) for prompt in prompts]
        if reading.tokens:
            (prompt,) = prompts
            logprobs = self._read_part(prompt, reading.tokens)
            return [Read(prompt.uid, before[0], prompt.total - len(prompt.left), prompt.total, logprobs)]
        for prompt in prompts:
            del self._prompts[prompt.uid]
        self._start(prompts, reading.lane)
        return [Read(one.uid, done, one.total, one.total) for one, done in zip(prompts, before, strict=True)]

    def _read_part(self, prompt: _Prompt, count: int) -> tuple[Logprobs, ...]:
        """Read the next tokens of a prompt, but not the last one. Return what is reported of those that follow each."""
        prompt.batch = prompt.batch or self._batch([prompt])
        now, after = prompt.left[:count], prompt.left[1 : count + 1]
        del prompt.left[:count]
        if prompt.scored:
            return prompt.batch.score(now, after)
        prompt.batch.prompt([now])
        return ()

    def _start(self, prompts: Sequence[_Prompt], number: int) -> None:
        """Read what is left, together, and begin to decode in a lane."""
        batch = prompts[0].batch if len(prompts) == 1 else None
        batch = batch or self._batch(prompts)
        if len(prompts[0].left) > 1:
            batch.prompt([prompt.left[:-1] for prompt in prompts])
        begun = batch.generate([prompt.left[-1:] for prompt in prompts])
        lane = self._lanes.setdefault(number, begun)
        if lane is not begun:
            lane.extend(begun)

    def _batch(self, prompts: Sequence[_Prompt]) -> Prompts:
        batch = Prompts(
            model=self._model,
            uids=[prompt.uid for prompt in prompts],
            caches=[self._single(prompt) for prompt in prompts],
            prefill_step_size=1 << 30,  # each reading is one pass
            samplers=[prompt.choice for prompt in prompts],
            fallback_sampler=greedy_sampler,
            logits_processors=[() for _ in prompts],
            stop_sequences=[prompt.stop for prompt in prompts],
            max_tokens=[prompt.tokens_max for prompt in prompts],
        )
        batch.agree = self._agree
        return batch

    def _single(self, prompt: _Prompt) -> Cache:
        return prompt.cache if prompt.batch is None else list(prompt.batch.extract_cache(0))

    def settle(self) -> None:
        """Wait for what a step has begun: the next one's tokens are always computed ahead."""
        for stream in (generation_stream, mx.default_stream(mx.cpu)):  # the latter talks to the others
            mx.synchronize(stream)


def ends_of(ending: Ending, end_ids: frozenset[int]) -> frozenset[int]:
    """Return the tokens that end an answer of a model with these end tokens."""
    return frozenset(ending.stop_tokens) | (frozenset() if ending.ignore_end else end_ids)


def _stop_sequences(ends: frozenset[int]) -> StopSequences:
    return StopSequences([(token,) for token in sorted(ends)])
