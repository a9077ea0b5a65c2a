"""Answers that only repeat themselves: their last tokens are one pattern, many times in a row. Pure."""

from __future__ import annotations

from collections import defaultdict, deque

from reconciler.wire.sampling import Repetition


class RepetitionScanner:
    """Looks at the tokens of one answer as they come, as vLLM does at the end of each step (vllm/v1/core/sched/utils.py).

    A step costs as much as its token is frequent among the last ``Repetition.pattern_max`` tokens.
    """

    def __init__(self, wanted: Repetition) -> None:
        self._wanted = wanted
        self._count = 0
        self._places: defaultdict[int, deque[int]] = defaultdict(deque)
        """The places of each of the last tokens, oldest first."""
        self._equal: dict[int, int] = {}
        """By distance: the number of tokens at the end that are each equal to the token that far before it."""

    def repeats(self, token: int) -> bool:
        """Take the next token. Returns whether the answer ends with a pattern that is there often enough."""
        wanted, at, places = self._wanted, self._count, self._places[token]
        self._count += 1
        while places and at - places[0] > wanted.pattern_max:
            places.popleft()
        self._equal = {at - place: self._equal.get(at - place, 0) + 1 for place in places}
        places.append(at)
        return any(
            distance >= wanted.pattern_min and equal >= distance * (wanted.count - 1)
            for distance, equal in self._equal.items()
        )
