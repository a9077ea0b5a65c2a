"""Rank 0's index of the prefix cache: the tokens of each entry, and the entries to drop when there is no room.

Nothing here computes with a model. Every rank holds the entries' arrays; only rank 0 knows their tokens.
"""

from __future__ import annotations

import dataclasses
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable

from reconciler.runner.model.caches import ANY, NOT, Footprint
from reconciler.wire.generation import KeptPrefixes
from reconciler.wire.group import Prefix

TOKEN_BYTES = 4
LENGTH_MIN = 16
"""Fewer tokens are read as fast as they are found."""

Packed = bytes
"""Token ids of four bytes each, the highest first: they sort, and are compared, as the tokens do."""


def packed(tokens: Iterable[int]) -> Packed:
    """Return tokens as bytes that sort as they do."""
    ids = array("I", tokens)
    if sys.byteorder == "little":
        ids.byteswap()
    return ids.tobytes()


def count(tokens: Packed) -> int:
    return len(tokens) // TOKEN_BYTES


def first(tokens: Packed, length: int) -> Packed:
    return tokens[: length * TOKEN_BYTES]


def shared_length(one: Packed, other: Packed) -> int:
    """Return how many tokens two sequences begin with alike."""
    low, high = 0, min(count(one), count(other))
    while low < high:
        middle = (low + high + 1) // 2
        part = slice(low * TOKEN_BYTES, middle * TOKEN_BYTES)
        low, high = (middle, high) if one[part] == other[part] else (low, middle - 1)
    return low


@dataclasses.dataclass
class _Entry:
    name: Prefix
    tokens: Packed
    size: int
    hits: int
    clock: float


class Prefixes:
    """The entries, which together take no more than the bound. Equal calls have equal results.

    The least valuable entry goes first: it saves the fewest tokens for its bytes, was used least, and was not used for
    the longest time (greedy dual size with frequency: Cherkasova, "Improving WWW Proxies Performance with GDSF Caching
    Policy", 1998). Tokens that another entry has too are not lost with it. So if many conversations share a system
    prompt, the last entry with it stays.
    """

    def __init__(self, footprint: Footprint, bytes_max: int) -> None:
        self.bytes = 0
        """Bytes of the entries on the rank that needs the most."""
        self.evictions = 0
        self.changes = 0
        """Entries that came or went so far."""
        self._footprint = footprint
        self._bytes_max = bytes_max if footprint.reuse != NOT else 0
        self._length_max = footprint.fitting(bytes_max) if self._bytes_max else 0
        self._entries: list[_Entry] = []
        """In the order of their tokens."""
        self._common: list[int] = []
        """The number of tokens that each has in common with the entry before it."""
        self._clock = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def names(self) -> set[Prefix]:
        return {entry.name for entry in self._entries}

    @property
    def kept(self) -> KeptPrefixes:
        return KeptPrefixes(self.bytes, self._bytes_max, len(self._entries), self.evictions)

    @property
    def length_max(self) -> int:
        """Return the most tokens that an entry can have; 0 if nothing is kept."""
        return self._length_max

    @property
    def any_part(self) -> bool:
        """Return whether the first tokens of an entry can be used without the others."""
        return self._footprint.reuse == ANY

    def find(self, tokens: Packed) -> tuple[Prefix, int] | None:
        """Return the entry that saves the most of a prompt's tokens, and how many; at least one is left to compute."""
        found = self._best(tokens)
        return (found[0].name, found[1]) if found else None

    def use(self, tokens: Packed) -> tuple[Prefix, int] | None:
        """Return the same as ``find``, and count a use of the entry."""
        found = self._best(tokens)
        if found is None:
            return None
        entry, length = found
        entry.hits += 1
        entry.clock = self._clock
        return entry.name, length

    def offer(self, uid: int, tokens: Packed) -> None:
        """Take up the tokens in the cache of a sequence, if they are worth it, and make room for them first."""
        length = count(tokens)
        if self.any_part:
            length = min(length, self._length_max)
            tokens = first(tokens, length)
        size = self._footprint.bytes(length)
        if length < LENGTH_MIN or length > self._length_max or self._is_there(tokens):
            return
        hits = 0
        for entry in self._replaced(tokens):
            hits += entry.hits
            self._remove(entry)
        while self.bytes + size > self._bytes_max:
            least = min(range(len(self._entries)), key=lambda at: (self._value(at), at))
            self._clock = max(self._clock, self._value(least))
            self.evictions += 1
            self._remove(self._entries[least])
        self._add(_Entry(Prefix(uid, length), tokens, size, hits, self._clock))

    def _best(self, tokens: Packed) -> tuple[_Entry, int] | None:
        at = self._place(tokens)
        most = count(tokens) - 1
        if self.any_part:
            near = self._entries[max(0, at - 1) : at + 1]
            found = [(min(shared_length(entry.tokens, tokens), most), entry.hits, entry) for entry in near]
            best = max(found, key=lambda one: one[:2], default=None)
            return (best[2], best[0]) if best and best[0] >= LENGTH_MIN else None
        whole = self._longest_within(tokens, at, most)
        return (whole, whole.name.length) if whole else None

    def _longest_within(self, tokens: Packed, at: int, most: int) -> _Entry | None:
        """Return the longest entry before position ``at`` with which ``tokens`` begins, of ``most`` tokens at most."""
        while at > 0:
            at -= 1
            entry = self._entries[at]
            most = min(most, shared_length(entry.tokens, tokens))
            if entry.name.length <= most:
                return entry
            if most < LENGTH_MIN:
                return None
        return None

    def _is_there(self, tokens: Packed) -> bool:
        at = self._place(tokens)
        if at == len(self._entries):
            return False
        after = self._entries[at].tokens
        return after.startswith(tokens) if self.any_part else after == tokens

    def _replaced(self, tokens: Packed) -> list[_Entry]:
        """Return the entry that a longer one makes needless. There is at most one: it has replaced others."""
        before = self._entries[: self._place(tokens)][-1:] if self.any_part else []
        return [entry for entry in before if tokens.startswith(entry.tokens)]

    def _value(self, at: int) -> float:
        """Return the cost of losing the entry at a position, per byte."""
        entry = self._entries[at]
        if self.any_part:
            elsewhere = max(self._common[at], self._common[at + 1] if at + 1 < len(self._common) else 0)
        else:
            within = self._longest_within(entry.tokens, at, entry.name.length - 1)
            elsewhere = within.name.length if within else 0
        lost = entry.name.length - elsewhere
        return entry.clock + (1 + entry.hits) * lost / max(1, entry.size)

    def _place(self, tokens: Packed) -> int:
        return bisect_left(self._entries, tokens, key=lambda entry: entry.tokens)

    def _add(self, entry: _Entry) -> None:
        at = self._place(entry.tokens)
        self._entries.insert(at, entry)
        self._common.insert(at, 0)
        for place in (at, at + 1):
            if 0 < place < len(self._entries):
                self._common[place] = shared_length(
                    self._entries[place - 1].tokens, self._entries[place].tokens
                )
        self.bytes += entry.size
        self.changes += 1

    def _remove(self, entry: _Entry) -> None:
        at = self._place(entry.tokens)
        del self._entries[at]
        gone = self._common.pop(at)
        if at < len(self._common):
            self._common[at] = min(gone, self._common[at])
        self.bytes -= entry.size
        self.changes += 1
