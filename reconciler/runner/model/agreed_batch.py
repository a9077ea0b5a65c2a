"""Batches of mlx-lm whose sequences choose every token as all ranks of the group do.

Only this module and ``generator`` use ``mlx_lm``'s batch generation. Written against mlx-lm 0.32.2 and mlx 0.32.4.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import mlx.core as mx
import numpy as np
from mlx_lm.generate import GenerationBatch, PromptProcessingBatch

Sampler = Callable[[Any], Any]
"""From log-probabilities, a row per sequence, to one token per row."""
Change = Callable[[Any, Any], Any]
"""From logits, a row per sequence, and the token before each row, to the logits to choose from."""
Agree = Callable[[Any], Any]
"""From the tokens that this rank chose, one per row, to the tokens that all ranks take."""


class Adjusted(Protocol):
    """The changes to one sequence's logits."""

    def together(self, all: Sequence[Any], /) -> Change:
        """Return a function that changes the logits of these sequences and notes their tokens; valid while the set is
        the same."""


class Constraint(Protocol):
    """The tokens of one sequence that may come next."""

    def advance(self, token: int, /) -> None:
        """Take the next token of the answer."""

    def fill(self, words: Any, /) -> None:
        """Write into a row of ``words_of`` which tokens may follow."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """The way in which the tokens of one sequence are chosen."""

    sampler: Sampler
    adjusted: Adjusted | None = None
    constraint: Constraint | None = None
    """Only on the rank whose tokens all ranks take."""
    likeliest: int | None = None
    """The number of likeliest tokens to report with each token; None: not even its own log-probability."""
    scores: int | None = None
    """The same for the tokens of the prompt."""


@dataclasses.dataclass(frozen=True)
class Logprobs:
    """Log-probabilities of the model's own distribution: of a token, and of the likeliest ones at its place."""

    chosen: float
    likeliest: tuple[tuple[int, float], ...]
    """Tokens with their log-probabilities, the likeliest first."""


def normalized(logits: Any) -> Any:
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


WORD_BITS = 32


def words_of(rows: int, vocabulary: int) -> Any:
    """Return a bit for each token of several sequences, all set, to be written without MLX: an array of ``int32``, a row for
    each sequence."""
    return np.full((rows, -(-vocabulary // WORD_BITS)), -1, dtype=np.int32)


def allowed_of(words: Any, vocabulary: int) -> Any:
    """Return an array of booleans, a row for each sequence, from such bits."""
    bits = np.unpackbits(words.view(np.uint8), axis=-1, count=vocabulary, bitorder="little")
    return mx.array(bits.view(np.bool_))


class Prompts(PromptProcessingBatch):  # type: ignore[misc]
    """Prompts whose sequences choose every token, the first as well, as ``AgreedBatch`` does."""

    agree: Agree

    def score(self, tokens: list[int], following: list[int]) -> tuple[Logprobs, ...]:
        """Read tokens of the only prompt, and compute the logits after each. Return this rank's report of the tokens
        that follow each.

        All ranks compute the logits, because the last layers communicate, and the cache alone would not need their
        results.
        """
        self.tokens[0] += tokens
        logits = self.model(mx.array([tokens]), cache=self.prompt_cache)[0]
        mx.eval(logits, [part.state for part in self.prompt_cache])
        count = self.samplers[0].scores
        if count is None:
            return ()
        rows = _report(logits, mx.array(following), count).rows
        mx.clear_cache()
        return tuple(dataclasses.replace(row, likeliest=row.likeliest[:count]) for row in rows)

    def generate(self, tokens: list[list[int]]) -> AgreedBatch:
        """Return the batch of these sequences, each of which has one token of its prompt left."""
        return AgreedBatch(
            self.agree,
            model=self.model,
            uids=self.uids,
            inputs=mx.array([last for (last,) in tokens]),
            prompt_cache=self.prompt_cache,
            tokens=self.tokens,
            samplers=self.samplers,
            fallback_sampler=self.fallback_sampler,
            logits_processors=self.logits_processors,
            stop_sequences=self.stop_sequences,
            max_tokens=self.max_tokens,
        )


class AgreedBatch(GenerationBatch):  # type: ignore[misc]
    """Tokens as all ranks agree on them, with one collective for all rows of a step."""

    model: Any
    samplers: list[Choice]
    tokens: list[list[int]]
    _next_tokens: Any
    _next_logprobs: list[_Row | None]

    def __init__(self, agree: Agree, **batch: Any) -> None:
        self._agree = agree
        self._changed: list[Adjusted] = []
        """The sequences that ``_change`` is about, in the order of their rows."""
        self._change: Change
        self._answering = False
        """The last tokens are those of answers, and no longer those of prompts."""
        super().__init__(**batch)
        self._answering = True

    def _step(self) -> tuple[list[int], list[_Row | None]]:
        """Begin the next step and wait for this one's tokens, as ``GenerationBatch`` does, with two differences.

        The agreement is part of the step's graph, so that the next step does not wait for this thread to ask
        for it; and log-probabilities are reported only for sequences that request them. If a constraint holds,
        this thread finds the tokens that may come next while the model computes.
        """
        tokens = self._current_tokens = self._next_tokens
        logits = self.model(tokens[:, None], cache=self.prompt_cache)[:, -1, :]
        allowed = self._allowed(logits, tokens)
        self._next_tokens = self._agree(self._chosen(logits, tokens, allowed))
        # Begun here: in a pipeline not every rank's next step needs it, and collectives have one order.
        mx.async_eval(self._next_tokens)  # type: ignore[no-untyped-call]
        reported, self._next_logprobs = self._next_logprobs, self._reports(logits)
        self._current_logprobs = reported
        mx.eval(tokens)
        values: list[int] = tokens.tolist()
        for sequence, token in zip(self.tokens, values, strict=True):
            sequence.append(token)
        return values, reported

    def _allowed(self, logits: Any, tokens: Any) -> Any:
        """Begin to compute the logits, wait for the tokens before them, and return the tokens that may follow; None
        if all may."""
        held = [(row, choice.constraint) for row, choice in enumerate(self.samplers) if choice.constraint]
        if not held:
            return None
        mx.async_eval(logits)  # type: ignore[no-untyped-call]
        said: list[int] = tokens.tolist() if self._answering else []
        words = words_of(*logits.shape)
        for row, constraint in held:
            if said:
                constraint.advance(said[row])
            constraint.fill(words[row])
        return allowed_of(words, logits.shape[-1])

    def _chosen(self, logits: Any, tokens: Any, allowed: Any) -> Any:
        """Return the next token of each row. Sequences with the same sampler, such as greedy ones, are sampled
        together."""
        logprobs = normalized(logits)
        if any(choice.adjusted for choice in self.samplers):
            logprobs = self._adjust(logprobs, logits, tokens)
        if allowed is not None:
            logprobs = mx.where(allowed, logprobs, -math.inf)
        shared = self.samplers[0].sampler
        if all(choice.sampler is shared for choice in self.samplers):
            return shared(logprobs)
        rows = [choice.sampler(logprobs[row : row + 1]) for row, choice in enumerate(self.samplers)]
        return mx.concatenate(rows)

    def _adjust(self, logprobs: Any, logits: Any, tokens: Any) -> Any:
        """Return log-probabilities with all changes, computed together for all sequences that have any."""
        found = [(row, choice.adjusted) for row, choice in enumerate(self.samplers) if choice.adjusted]
        adjusted = [one for _, one in found]
        if adjusted != self._changed:
            self._changed, self._change = adjusted, adjusted[0].together(adjusted)
        if len(adjusted) == len(self.samplers):
            return normalized(self._change(logits, tokens))
        rows = mx.array([row for row, _ in found])
        logprobs = logprobs.astype(mx.float32)
        logprobs[rows] = normalized(self._change(logits[rows], tokens[rows]))
        return logprobs

    def _reports(self, logits: Any) -> list[_Row | None]:
        """Begin to compute the reports of the next tokens."""
        asked = {row: c.likeliest for row, c in enumerate(self.samplers) if c.likeliest is not None}
        if not asked:
            return [None] * len(self.samplers)
        rows = mx.array(list(asked))
        report = _report(logits[rows], self._next_tokens[rows], max(asked.values()))
        mx.async_eval([report.chosen, report.ids, report.logprobs])  # type: ignore[no-untyped-call]
        places = {row: _Row(report, place, asked[row]) for place, row in enumerate(asked)}
        return [places.get(row) for row in range(len(self.samplers))]


def _report(logits: Any, tokens: Any, most: int) -> _Report:
    """Begin to compute the report of a token for each row of logits, with ``most`` likely tokens at most."""
    logprobs = normalized(logits.astype(mx.float32))
    chosen = mx.take_along_axis(logprobs, tokens[:, None], axis=-1)
    count = min(most, logprobs.shape[-1])
    ids = mx.argpartition(-logprobs, kth=count - 1, axis=-1)[:, :count] if count else None
    likeliest = None if ids is None else mx.take_along_axis(logprobs, ids, axis=-1)
    return _Report(chosen, ids, likeliest)


@dataclasses.dataclass(frozen=True)
class _Report:
    """Arrays, a row for each sequence that reports; without ids if none requests likely tokens."""

    chosen: Any
    ids: Any
    logprobs: Any

    @functools.cached_property
    def rows(self) -> list[Logprobs]:
        """Wait for the arrays."""
        chosen = self.chosen[:, 0].tolist()
        if self.ids is None:
            return [Logprobs(own, ()) for own in chosen]
        found = zip(chosen, self.ids.tolist(), self.logprobs.tolist(), strict=True)
        return [Logprobs(own, _ordered(ids, logprobs)) for own, ids, logprobs in found]


def _ordered(ids: Sequence[int], logprobs: Sequence[float]) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(zip(ids, logprobs, strict=True), key=lambda one: (-one[1], one[0])))


@dataclasses.dataclass(frozen=True)
class _Row:
    report: _Report
    place: int
    count: int

    def read(self) -> Logprobs:
        row = self.report.rows[self.place]
        return Logprobs(row.chosen, row.likeliest[: self.count])
