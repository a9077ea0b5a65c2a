"""How many prompt tokens a step reads: as many as the running answers can wait for. Pure: rank 0 measures, this decides."""

from __future__ import annotations

from reconciler.wire.launch import PIECE_TOKENS_MAX

TOKENS_MIN = 16
"""The least of a step, so that every prompt gets on."""
UNKNOWN_TOKENS = 32
"""Read beside answers while nothing has been measured."""
ALONE_TOKENS_MIN = 512
ALONE_SECONDS = 4.0
"""A step that nobody waits for takes no longer either, for somebody may come."""
MARGIN = 0.75
"""The part of the time that is planned with: steps differ."""
LEAST_SHARE = 0.25
"""Tokens that are read may take so much of what a step takes without them, whatever the bound."""
GROWTH = 2
"""The next step reads at most so many times the tokens of the one before, for the measurements are of few tokens."""
STEEPNESS = 1.5
"""More tokens than in the step before are taken to cost that power of their number: what is read together fits a
processor's caches, or does not."""
WEIGHT = 0.3
"""Of the newest measurement, beside all before it."""
MEMORY = 0.9
"""How much of a difference between two steps still counts at the next one."""
SECONDS_MIN = 1e-6
"""No step is shorter."""
DOUBT = 0.1
"""Steps whose tokens differ by less than this part of them hardly tell what reading takes whatever the number."""


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
            found = self._line.tokens(ALONE_SECONDS) if last else PIECE_TOKENS_MAX
            return max(ALONE_TOKENS_MIN, min(PIECE_TOKENS_MAX, int(found)))
        if not last:
            return UNKNOWN_TOKENS
        decode = self._decode_seconds or 0.0
        shortest = decode + self._line.fixed
        seconds = max(stall_seconds * MARGIN, shortest * (1 + LEAST_SHARE))
        share = (seconds - decode) / max(last_seconds - decode, SECONDS_MIN)
        found = min(self._line.tokens(seconds - decode), _grown(last, share))
        return max(TOKENS_MIN, min(PIECE_TOKENS_MAX, int(found)) // TOKENS_MIN * TOKENS_MIN)

    def measured(self, seconds: float, read: int, decoded: bool) -> None:
        """Note how long a step took that read so many tokens, and whether it decoded as well."""
        if not read:
            before = self._decode_seconds
            self._decode_seconds = seconds if before is None else before + WEIGHT * (seconds - before)
        else:
            decode = (self._decode_seconds or 0.0) if decoded else 0.0
            self._line.add(read, max(0.0, seconds - decode))
            self._last = (read, seconds)


def _grown(tokens: int, share: float) -> float:
    """Return how many tokens may follow on so many, which took ``1 / share`` of their time."""
    if share <= 1:
        return tokens * share
    return max(tokens * min(GROWTH, float(share ** (1 / STEEPNESS))), tokens + TOKENS_MIN)


class _Line:
    """The straight line nearest to what was measured. No cost is below zero.

    Its slope is that between steps one after the other: of steps far apart, the later ones take longer for having more
    tokens before theirs.
    """

    def __init__(self) -> None:
        self.fixed = 0.0
        """Seconds that reading takes whatever the number of tokens."""
        self._each = 0.0
        self._weight = 0.0
        self._mean_tokens = self._mean_seconds = 0.0
        self._before: tuple[int, float] | None = None
        self._spread = self._both = 0.0

    def tokens(self, seconds: float) -> float:
        """Return how many tokens are read in that time, at most ``PIECE_TOKENS_MAX``."""
        left = seconds - self.fixed
        if left >= self._each * PIECE_TOKENS_MAX:
            return PIECE_TOKENS_MAX
        return max(0.0, left / self._each)

    def add(self, tokens: int, seconds: float) -> None:
        """Note one measurement."""
        self._weight = 1 + (1 - WEIGHT) * self._weight
        share = 1 / self._weight
        self._mean_tokens += share * (tokens - self._mean_tokens)
        self._mean_seconds += share * (seconds - self._mean_seconds)
        by_tokens, by_seconds = (
            (tokens - self._before[0], seconds - self._before[1]) if self._before else (0, 0.0)
        )
        self._before = tokens, seconds
        self._spread = MEMORY * self._spread + by_tokens**2
        self._both = MEMORY * self._both + by_tokens * by_seconds
        mean = self._mean_seconds / self._mean_tokens
        doubt = (DOUBT * self._mean_tokens) ** 2
        each = (self._both + doubt * mean) / (self._spread + doubt)
        self._each = min(mean, max(mean / TOKENS_MIN, each))
        self.fixed = self._mean_seconds - self._each * self._mean_tokens
