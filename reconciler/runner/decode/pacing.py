"""How many prompt tokens a step reads: as many as the running answers can wait for. Pure: rank 0 measures, this decides."""

from __future__ import annotations

TOKENS_MAX = 2048
"""The most of a step. With more, no model is read faster."""
TOKENS_MIN = 16
"""The least of a step, so that every prompt gets on."""
UNKNOWN_TOKENS = 32
"""Read beside answers while nothing has been measured."""
ALONE_TOKENS_MIN = 512
ALONE_SECONDS = 4.0
"""A step that nobody waits for takes no longer either, for somebody may come."""
MARGIN = 0.8
"""The part of the time that is planned with: steps differ."""
LEAST_SHARE = 0.25
"""Tokens that are read may take so much of what a step takes without them, whatever the bound."""
GROWTH = 2
"""The next step reads at most so many times the tokens of the one before, for the measurements are of few tokens."""
WEIGHT = 0.3
"""Of the newest measurement, beside all before it."""


class Pacing:
    """Learns from every step what it takes to decode, to read at all, and to read a token more.

    A token takes longer the more tokens its sequence has, and steps of other programs on the machine are in every
    measurement: so older ones count less and less.
    """

    def __init__(self) -> None:
        self._decode_seconds: float | None = None
        """Of a step that reads nothing."""
        self._line = _Line()
        """What reading takes beside that, by its tokens."""
        self._last = (0, 0.0)
        """Tokens of the last step that read, and what it took in all."""

    def tokens(self, stall_seconds: float | None) -> int:
        """Return how many tokens to read in the next step. Answers can wait so long for their next token; None: there are
        none."""
        last, last_seconds = self._last
        if stall_seconds is None:
            found = self._line.tokens(ALONE_SECONDS) if last else TOKENS_MAX
            return max(ALONE_TOKENS_MIN, min(TOKENS_MAX, int(found)))
        if not last:
            return UNKNOWN_TOKENS
        decode = self._decode_seconds or 0.0
        shortest = decode + self._line.fixed
        seconds = max(stall_seconds * MARGIN, shortest * (1 + LEAST_SHARE))
        found = min(self._line.tokens(seconds - decode), last * GROWTH)
        if last_seconds > seconds:
            found = min(found, last * seconds / last_seconds)
        return max(TOKENS_MIN, min(TOKENS_MAX, int(found)) // TOKENS_MIN * TOKENS_MIN)

    def measured(self, seconds: float, read: int, decoded: bool) -> None:
        """Note how long a step took that read so many tokens, and whether it decoded as well."""
        if not read:
            before = self._decode_seconds
            self._decode_seconds = seconds if before is None else before + WEIGHT * (seconds - before)
        else:
            decode = (self._decode_seconds or 0.0) if decoded else 0.0
            self._line.add(read, max(0.0, seconds - decode))
            self._last = (read, seconds)


class _Line:
    """The straight line nearest to what was measured, by weighted least squares. No cost is below zero."""

    def __init__(self) -> None:
        self.fixed = 0.0
        """Seconds that reading takes whatever the number of tokens."""
        self._each = 0.0
        self._weight = 0.0
        self._mean_tokens = self._mean_seconds = 0.0
        self._spread = self._both = 0.0

    def tokens(self, seconds: float) -> float:
        """Return how many tokens are read in that time, at most ``TOKENS_MAX``."""
        left = seconds - self.fixed
        if left >= self._each * TOKENS_MAX:
            return TOKENS_MAX
        return max(0.0, left / self._each)

    def add(self, tokens: int, seconds: float) -> None:
        """Note one measurement."""
        self._weight = 1 + (1 - WEIGHT) * self._weight
        share = 1 / self._weight
        by_tokens, by_seconds = tokens - self._mean_tokens, seconds - self._mean_seconds
        self._mean_tokens += share * by_tokens
        self._mean_seconds += share * by_seconds
        self._spread = (1 - share) * (self._spread + share * by_tokens**2)
        self._both = (1 - share) * (self._both + share * by_tokens * by_seconds)
        mean = self._mean_seconds / self._mean_tokens
        told = self._spread > (TOKENS_MIN / 4) ** 2  # else all had about the same number of tokens
        each = self._both / self._spread if told else mean
        self._each = min(mean, max(mean / TOKENS_MIN, each))
        self.fixed = self._mean_seconds - self._each * self._mean_tokens
