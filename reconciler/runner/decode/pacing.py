"""The number of prompt tokens that a step reads: as many as running answers can wait for. Pure."""

from __future__ import annotations

from reconciler.wire.launch import PIECE_TOKENS_MAX

TOKENS_MIN = 16
"""The least that a step reads, so that every prompt makes progress."""
UNKNOWN_TOKENS = 32
"""Read beside answers while nothing has been measured."""
ALONE_TOKENS_MIN = 512
ALONE_SECONDS = 4.0
"""A step that no request waits for takes no longer either, because one may arrive."""
MARGIN = 0.75
"""The part of the time that a plan uses, because steps differ."""
LEAST_SHARE = 0.25
"""Reading may prolong a step by this part of its time, whatever the bound."""
GROWTH = 2
"""The next step reads at most this many times the tokens of the last step: measurements cover few tokens."""
STEEPNESS = 1.5
"""If a step reads more tokens than the step before it, their cost is assumed to grow with this power of their number:
they may no longer fit a processor's caches."""
WEIGHT = 0.3
"""Weight of the newest measurement against all earlier ones."""
MEMORY = 0.9
"""The part of a difference between two steps that still counts at the next step."""
SECONDS_MIN = 1e-6
"""No step is shorter."""
DOUBT = 0.1
"""Steps whose numbers of tokens differ by less than this part hardly show the fixed cost of reading."""


class Pacing:
    """Learns the cost of decoding, of reading at all, and of each further token, from every step.

    A token takes longer the more tokens its sequence has, and every measurement includes the load of other
    programs on the machine. So older measurements count less and less.
    """

    def __init__(self) -> None:
        self._decode_seconds: float | None = None
        """Of a step that reads nothing."""
        self._line = _Line()
        """The time that reading adds to that, by the number of tokens."""
        self._last = (0, 0.0)
        """Tokens of the last step that read, and its seconds in all."""

    def tokens(self, stall_seconds: float | None) -> int:
        """Return how many tokens to read in the next step. ``stall_seconds``: the time that answers can wait for
        their next token; None if there are no answers."""
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
        """Note the time of a step that read ``read`` tokens. ``decoded``: it decoded as well."""
        if not read:
            before = self._decode_seconds
            self._decode_seconds = seconds if before is None else before + WEIGHT * (seconds - before)
        else:
            decode = (self._decode_seconds or 0.0) if decoded else 0.0
            self._line.add(read, max(0.0, seconds - decode))
            self._last = (read, seconds)


def _grown(tokens: int, share: float) -> float:
    """Return how many tokens may take ``share`` times as long as ``tokens`` took."""
    if share <= 1:
        return tokens * share
    return max(tokens * min(GROWTH, float(share ** (1 / STEEPNESS))), tokens + TOKENS_MIN)


class _Line:
    """The straight line nearest to the measurements. No cost is below zero.

    Its slope comes from neighbouring steps. Of steps far apart, the later ones take longer because more tokens precede
    theirs.
    """

    def __init__(self) -> None:
        self.fixed = 0.0
        """Seconds that reading takes for any number of tokens."""
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
