"""In which order prompts are read, and which of them together. Pure.

Clients take turns by tokens: that goes next of which the fewest have been read since it has had anything to read. Of one
client, that prompt goes next of which little has been read, so that a short one does not wait for a long one, and among
those the first that came. None is passed over for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from .inbox import Ticket

LITTLE = 1024
"""Tokens of which little has been read; four times as many are the next level, and so on."""
PASSED_OVER_MAX = 8
"""Steps that may pass over a prompt: then it goes first."""
PADDING_MIN = 64
"""Tokens of padding that cost less than to read prompts one after the other; or a part of theirs:"""
PADDING_SHARE = 4


class Turns:
    """Tokens that count as read of each client that has any to read."""

    def __init__(self) -> None:
        self.read: dict[str, int] = {}

    def among(self, clients: Set[str]) -> None:
        """Forget all other clients; a new one is where the last of these is."""
        self.read = {client: read for client, read in self.read.items() if client in clients}
        least = min(self.read.values(), default=0)
        self.read.update((client, least) for client in clients - self.read.keys())


class Order:
    """The order of requests, by the turns of their clients."""

    def __init__(self) -> None:
        self._turns = Turns()

    def of(self, tickets: Iterable[Ticket]) -> list[Ticket]:
        """Return the requests with something to read, those first that are to be read first."""
        unread = list(tickets)
        self._turns.among({ticket.client for ticket in unread})
        return sorted(
            unread,
            key=lambda ticket: (
                ticket.passed_over < PASSED_OVER_MAX,
                self._turns.read[ticket.client],
                _level(ticket.read - ticket.reused),
                ticket.number,
            ),
        )

    def read(self, ticket: Ticket, tokens: int) -> None:
        """Note that the next step reads so many tokens of a request."""
        self._turns.read[ticket.client] += tokens
        ticket.passed_over = 0


def _level(read: int) -> int:
    return ((read // LITTLE).bit_length() + 1) // 2


def together(tickets: Sequence[Ticket], have_room: Callable[[Sequence[int]], bool]) -> list[list[Ticket]]:
    """Return the requests whose prompts are read to their ends in groups, so that there is little padding in any.

    ``have_room`` says whether there is room for a group, by its uids.
    """
    groups: list[list[Ticket]] = []
    for ticket in sorted(tickets, key=lambda ticket: (ticket.unread, len(ticket.prompt))):
        group = [*groups[-1], ticket] if groups else []
        if group and _alike(group) and have_room([one.uid for one in group if one.uid is not None]):
            groups[-1] = group
        else:
            groups.append([ticket])
    return groups


def _alike(group: Sequence[Ticket]) -> bool:
    unread = [ticket.unread for ticket in group]
    if (min(unread) == 1) != (max(unread) == 1):  # the last token of a prompt is not read but decoded
        return False
    padding = len(group) * max(unread) - sum(unread)
    return padding <= max(PADDING_MIN, sum(unread) // PADDING_SHARE)
