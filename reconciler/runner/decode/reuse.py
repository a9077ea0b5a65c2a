"""Rank 0's choice of the parts of sequences to keep for others, from their tokens."""

from __future__ import annotations

from collections import Counter, deque

from reconciler.wire.generation import KeptPrefixes
from reconciler.wire.group import Insertion, Prefix

from .inbox import Ticket
from .prefixes import LENGTH_MIN, Packed, Prefixes, count, first, packed, shared_length

WORTH_WAITING = 64
"""A request waits for another prompt that is being read if this saves it as many tokens."""
RECENT_PROMPTS = 32
"""Prompts that are remembered to find their common beginnings."""


class Reuse:
    """Tracks the cache of each running sequence, and chooses the entries that the next step keeps, forgets and reuses.

    If a cache can be reused only as a whole, each prompt is cut where others may part from it: where an earlier prompt
    did, and after the last message.
    """

    def __init__(self, prefixes: Prefixes, end_ids: frozenset[int]) -> None:
        self._prefixes = prefixes
        self._end_ids = end_ids
        self._agreed: set[Prefix] = set()
        """Entries that the other ranks have too."""
        self._changes = 0
        """``Prefixes.changes`` when they agreed."""
        self._reading: dict[int, Ticket] = {}
        self._awaited: dict[int, int] = {}
        """The number of tokens that other requests wait for, by the uid of the sequence that is read."""
        self._cuts: dict[int, set[int]] = {}
        self._recent: deque[Packed] = deque(maxlen=RECENT_PROMPTS)

    @property
    def kept(self) -> KeptPrefixes:
        return self._prefixes.kept

    def change(self) -> tuple[tuple[Prefix, ...], tuple[Prefix, ...]]:
        """Return the entries to forget and to keep before the next step, after all ends and cuts since the last
        step."""
        if self._changes == self._prefixes.changes:
            return (), ()
        before, after = self._agreed, self._prefixes.names
        self._agreed, self._changes = after, self._prefixes.changes
        return tuple(sorted(before - after)), tuple(sorted(after - before))

    def begin(self, ticket: Ticket) -> Insertion:
        """Return the insertion of a request under its uid, which the next step does."""
        assert ticket.uid is not None
        tokens = _prompt(ticket)
        found = None if ticket.scoring else self._prefixes.use(tokens)
        entry, reused = found or (None, 0)
        ticket.read = ticket.reused = reused
        if not ticket.began:
            ticket.began, ticket.cached = True, reused
        self._reading[ticket.uid] = ticket
        self._cuts[ticket.uid] = set(self._cuts_of(ticket, tokens))
        return Insertion(
            ticket.prompt[reused:],
            ticket.tokens_max,
            ticket.sampling,
            ticket.position,
            entry,
            reused,
            ticket.ending,
            ticket.seen,
            ticket.scoring,
        )

    def is_worth_waiting(self, ticket: Ticket) -> bool:
        """Return whether a prompt that is being read begins like this one, so that one reading is enough for both."""
        if ticket.behind is not None and ticket.behind in self._awaited:
            return True
        if not self._reading or not self._prefixes.length_max or ticket.scoring:
            return False
        tokens = _prompt(ticket)
        found = self._prefixes.find(tokens)
        least = (found[1] if found else 0) + WORTH_WAITING
        for uid, other in self._reading.items():
            shared = min(shared_length(tokens, _prompt(other)), count(tokens) - 1)
            if least <= shared <= self._prefixes.length_max and self._can_be_kept_at(uid, shared):
                self._awaited[uid] = max(shared, self._awaited.get(uid, 0))
                ticket.behind = uid
                return True
        return False

    def up_to_cut(self, ticket: Ticket) -> int:
        """Return how many tokens of a prompt can be read before its next cut or its end."""
        assert ticket.uid is not None
        ahead = [cut for cut in self._cuts.get(ticket.uid, ()) if cut > ticket.read]
        if ticket.uid in self._awaited and not self._prefixes.any_part:
            ahead.append(self._awaited[ticket.uid])
        return min(ahead, default=len(ticket.prompt)) - ticket.read

    def read(self, ticket: Ticket, read: int) -> None:
        """Note that ``read`` tokens of a prompt have been read."""
        assert ticket.uid is not None
        ticket.read = read
        awaited = self._awaited.get(ticket.uid)
        if awaited is not None and ticket.read >= awaited:
            self._prefixes.offer(ticket.uid, first(_prompt(ticket), awaited))
            del self._awaited[ticket.uid]
        elif ticket.read in self._cuts[ticket.uid]:
            self._prefixes.offer(ticket.uid, first(_prompt(ticket), ticket.read))
        if ticket.read == len(ticket.prompt):
            self._forget(ticket.uid)

    def end(self, ticket: Ticket) -> None:
        """Note that a sequence has ended, or that the next step removes it."""
        assert ticket.uid is not None
        self._forget(ticket.uid)
        said = ticket.said if ticket.read == len(ticket.prompt) else []
        self._prefixes.offer(ticket.uid, first(_prompt(ticket), ticket.read) + packed(said))

    def _forget(self, uid: int) -> None:
        self._reading.pop(uid, None)
        self._awaited.pop(uid, None)
        self._cuts.pop(uid, None)

    def _can_be_kept_at(self, uid: int, length: int) -> bool:
        if self._prefixes.any_part:
            return True
        other = self._reading[uid]
        return length > other.read and (length in self._cuts[uid] or length == len(other.prompt) - 1)

    def _cuts_of(self, ticket: Ticket, tokens: Packed) -> list[int]:
        if self._prefixes.any_part or not self._prefixes.length_max:
            return []
        shared = Counter(shared_length(tokens, other) for other in self._recent)
        self._recent.append(tokens)
        cuts = {max(shared, default=0), *(length for length, _ in shared.most_common(1))}
        cuts.add(max((at for at, token in enumerate(ticket.prompt, 1) if token in self._end_ids), default=0))
        return sorted(cut for cut in cuts if ticket.read + LENGTH_MIN <= cut < len(ticket.prompt))


def _prompt(ticket: Ticket) -> Packed:
    ticket.packed = ticket.packed or packed(ticket.prompt)
    return ticket.packed
