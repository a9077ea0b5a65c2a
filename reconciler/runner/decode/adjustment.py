"""Changes to the logits of a sequence before its next token is chosen. They are equal on every rank, and
the same when an answer is resumed.

In vLLM's order: tokens that may not come yet, biases, penalties (``vllm/v1/sample/sampler.py``, ``apply_logits_processors``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from reconciler.wire.group import Insertion, Seen
from reconciler.wire.sampling import Sampling

NEVER = -1e9
"""Added to a logit, it leaves a token no chance. If it hits all tokens, the result is still no NaN."""


def adjustment(insertion: Insertion, end_ids: frozenset[int]) -> Adjustment | None:
    """Return the changes for a sequence; None if there are none. ``end_ids`` are the model's end tokens."""
    sampling, ending = insertion.sampling, insertion.ending
    early = insertion.position < ending.tokens_min
    if not (sampling.biases or sampling.penalizes or early):
        return None
    # vLLM rules out the model's end tokens too, even if the answer would continue after them.
    held = sorted(end_ids | set(ending.stop_tokens)) if early else []
    seen = insertion.seen or Seen((), ())
    return Adjustment(sampling, seen, held, ending.tokens_min - insertion.position)


class Adjustment:
    """The changes for one sequence."""

    def __init__(self, sampling: Sampling, seen: Seen, held: list[int], held_for: int) -> None:
        """The tokens ``held`` cannot come at the next ``held_for`` places."""
        self.sampling = sampling
        self.held_for = held_for
        self.begun = False
        """A token of the answer has been chosen. Until then the last token is one of the prompt."""
        self.seen = seen
        self._held = held
        self._changes: _Changes | None = None
        self._row = 0

    def together(self, all: Sequence[Adjustment]) -> _Changes:
        """Return a function that changes the logits of several sequences at once, a row for each. Call it
        again when the set of sequences changes."""
        changes = _Changes(all, [(one._changes, one._row) for one in all])
        for row, one in enumerate(all):
            one._changes, one._row = changes, row
        return changes

    @property
    def additions(self) -> dict[int, float]:
        """Return the numbers to add to the logits of some tokens at the next place."""
        added = {bias.token: bias.by for bias in self.sampling.biases}
        for token in self._held if self.held_for > 0 else ():
            added[token] = added.get(token, 0.0) + NEVER
        return added


class _Changes:
    """Changes rows of logits, step by step. The cost hardly depends on the number of rows."""

    def __init__(self, all: Sequence[Adjustment], before: Sequence[tuple[_Changes | None, int]]) -> None:
        """``before`` has, for each sequence, the object that changed it so far, and its row there."""
        self.counts: Any = None
        """A row for each sequence: how often its answer has each token."""
        self.prompts: Any = None
        """Which tokens its prompt has."""
        self._all = all
        self._before = before
        self._penalizes = any(one.sampling.penalizes for one in all)
        self._held: list[bool] = []
        self._additions: tuple[Any, Any, Any] | None = None
        columns = [
            (one.sampling.repetition_penalty, one.sampling.frequency_penalty, one.sampling.presence_penalty)
            for one in all
        ]
        self._repetition, self._frequency, self._presence = (
            mx.array(column)[:, None] for column in zip(*columns, strict=True)
        )

    def __call__(self, logits: Any, last: Any) -> Any:
        """Return the changed logits. ``last`` has the token before each row."""
        logits = self._added(logits.astype(mx.float32))
        if self._penalizes:
            self._count(last, logits.shape[-1])
            logits = self._penalized(logits)
        for one in self._all:
            one.held_for -= 1
            one.begun = True
        return logits

    def _added(self, logits: Any) -> Any:
        held = [one.held_for > 0 for one in self._all]
        if held != self._held:
            self._held = held
            entries = [(row, *entry) for row, one in enumerate(self._all) for entry in one.additions.items()]
            self._additions = None
            if entries:
                rows, tokens, by = zip(*entries, strict=True)
                self._additions = mx.array(rows), mx.array(tokens), mx.array(by, dtype=mx.float32)
        if self._additions is None:
            return logits
        rows, tokens, by = self._additions
        return logits.at[rows, tokens].add(by)

    def _count(self, last: Any, vocabulary: int) -> None:
        if self.counts is None:
            counted = zip(self._all, self._before, strict=True)
            counts = [_counts(one, *before, vocabulary) for one, before in counted]
            self.counts = mx.stack([said for said, _ in counts])
            self.prompts = mx.stack([prompt for _, prompt in counts])
            self._before = ()
        new = mx.array([float(one.begun) for one in self._all])
        self.counts = self.counts.at[mx.arange(len(self._all)), last].add(new)

    def _penalized(self, logits: Any) -> Any:
        """Apply the penalties as vLLM defines them (``vllm/model_executor/layers/utils.py``, ``apply_penalties``)."""
        said = self.counts > 0
        factor = mx.where(logits > 0, 1 / self._repetition, self._repetition)
        logits = mx.where(self.prompts | said, logits * factor, logits)
        return logits - self._frequency * self.counts - self._presence * said


def _counts(one: Adjustment, changes: _Changes | None, row: int, vocabulary: int) -> tuple[Any, Any]:
    """Return how often an answer has each token, and which tokens its prompt has."""
    if changes is not None and changes.counts is not None:
        return changes.counts[row], changes.prompts[row]
    none = mx.zeros((vocabulary,))
    said = none.at[mx.array(one.seen.answer, dtype=mx.uint32)].add(1)
    return said, none.at[mx.array(one.seen.prompt, dtype=mx.uint32)].add(1) > 0
