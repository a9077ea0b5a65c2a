"""Finds the group that has read the beginning of a request and need not read it again. Pure."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import orjson

from reconciler.wire.generation import Generate

REMEMBERED_MAX = 32_768
"""The most beginnings of requests, of all models together: a few MiB."""
BEGINNINGS_MAX = 64
"""The most beginnings of one request. A long conversation is identified by its last messages, and by its first."""
TEXT_BLOCK = 1024
"""Prompts without messages are compared in blocks of this many characters."""
TOKENS_BLOCK = 256
AHEAD_MAX = 4
"""A group that is ahead of another by more requests than this gets no further one."""

K = TypeVar("K")
Beginnings = Sequence[bytes]
"""Digests, the most telling first: of the session that the client names, then of shorter and shorter beginnings."""


def beginnings(model: str, generate: Generate, session: str = "") -> Beginnings:
    """Return the digests of a request's beginnings, to compare with earlier requests."""
    digest = hashlib.blake2b(orjson.dumps((model, generate.tools)), digest_size=8)
    found = []
    for part in _parts(generate):
        digest.update(orjson.dumps(part, option=orjson.OPT_SORT_KEYS))
        found.append(digest.digest())
    longest = found[::-1]
    if len(longest) > BEGINNINGS_MAX:
        longest = longest[: BEGINNINGS_MAX - 1] + longest[-1:]
    return [_named(model, session), *longest] if session else longest


def _named(model: str, session: str) -> bytes:
    return hashlib.blake2b(orjson.dumps(("session", model, session)), digest_size=8).digest()


def _parts(generate: Generate) -> Iterable[object]:
    """Return the pieces of a prompt that another prompt may have too."""
    text, tokens = generate.prompt, generate.prompt_tokens
    if text is not None:
        return (text[at : at + TEXT_BLOCK] for at in range(0, len(text), TEXT_BLOCK))
    if tokens is not None:
        return (tokens[at : at + TOKENS_BLOCK] for at in range(0, len(tokens), TOKENS_BLOCK))
    return generate.messages


class Affinity(Generic[K]):
    """The groups that requests went to, by the beginnings of these. The least recently used beginning is forgotten
    first."""

    def __init__(self) -> None:
        self._groups: OrderedDict[bytes, K] = OrderedDict()

    def note(self, begins: Beginnings, group: K) -> None:
        for digest in reversed(begins):
            self._groups[digest] = group
            self._groups.move_to_end(digest)
        while len(self._groups) > REMEMBERED_MAX:
            self._groups.popitem(last=False)

    def choose(self, begins: Beginnings, loads: Mapping[K, int], batch: int) -> K | None:
        """Return the group that has read the most of a request, unless another would still answer it sooner.

        ``loads`` has the number of requests of each group that could take it. ``batch`` is the number that a group
        decodes together, 0 if that is not known.
        """
        least = min(loads.values(), default=0)
        for digest in begins:
            group = self._groups.get(digest)
            if group is not None and group in loads:
                load = loads[group]
                waits = 0 < batch <= load and least < batch
                return None if waits or load - least > AHEAD_MAX else group
        return None
