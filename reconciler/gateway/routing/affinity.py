"""Which group has read what a request begins with: it need not read that again. Pure."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import orjson

from reconciler.wire.generation import Generate

REMEMBERED_MAX = 32_768
"""Beginnings of requests of all models together: a few MiB."""
BEGINNINGS_MAX = 64
"""Of one request. A long conversation is known by its last messages, and by its first."""
TEXT_BLOCK = 1024
"""A prompt without messages begins like another in blocks of so many characters."""
TOKENS_BLOCK = 256
AHEAD_MAX = 4
"""A group with so many requests more than another is left to work them off."""

K = TypeVar("K")
Beginnings = Sequence[bytes]
"""Digests, the most telling first: of the session that the client names, then of shorter and shorter beginnings."""


def beginnings(model: str, generate: Generate, session: str = "") -> Beginnings:
    """Return the digests by which a request is known to begin like earlier ones."""
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
    """Return what a prompt is made of, in pieces that another prompt may have too."""
    text, tokens = generate.prompt, generate.prompt_tokens
    if text is not None:
        return (text[at : at + TEXT_BLOCK] for at in range(0, len(text), TEXT_BLOCK))
    if tokens is not None:
        return (tokens[at : at + TOKENS_BLOCK] for at in range(0, len(tokens), TOKENS_BLOCK))
    return generate.messages


class Affinity(Generic[K]):
    """The groups to which requests went, by how these began. What was not asked for the longest is forgotten first."""

    def __init__(self) -> None:
        self._groups: OrderedDict[bytes, K] = OrderedDict()

    def note(self, begins: Beginnings, group: K) -> None:
        """Remember that a group reads a request."""
        for digest in reversed(begins):
            self._groups[digest] = group
            self._groups.move_to_end(digest)
        while len(self._groups) > REMEMBERED_MAX:
            self._groups.popitem(last=False)

    def choose(self, begins: Beginnings, loads: Mapping[K, int], batch: int) -> K | None:
        """Return the group that has read the most of a request, unless another would answer it sooner all the same.

        ``loads`` are the requests of each group that could take it; ``batch`` is how many one decodes together, 0 if
        that is not known.
        """
        least = min(loads.values(), default=0)
        for digest in begins:
            group = self._groups.get(digest)
            if group is not None and group in loads:
                load = loads[group]
                waits = 0 < batch <= load and least < batch
                return None if waits or load - least > AHEAD_MAX else group
        return None
