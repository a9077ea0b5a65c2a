"""The tokens that a request may take, estimated before a rank has read it. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import orjson

from reconciler.wire.generation import Generate
from reconciler.wire.keys import KeyLimits

USUAL_ANSWER = 1024
"""Tokens that are reserved for an answer if the client gives no limit."""
BYTES_PER_TOKEN, BYTES_PER_TOKEN_MAX = 3, 4
"""For a prompt's JSON. Tokens of today's tokenizers have some four bytes of English, or three of Chinese."""


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens of a request: its prompts, each once, and its answers."""

    least: int
    """The lowest estimate: if it is over a limit, no waiting helps."""
    usual: int

    def within(self, limits: KeyLimits) -> int:
        """Return the tokens to reserve: the usual number, but no more than the limits allow, and never fewer than
        ``least``."""
        most = min(limits.tokens_per_minute or self.usual, limits.tokens_per_day or self.usual)
        return max(self.least, min(self.usual, most))


def estimate(choices: Sequence[Generate], answers: int) -> Estimate:
    """Return the tokens that a request may take. Every ``answers`` of its choices have the same prompt."""
    prompts = [_prompt_bytes(choice) for choice in choices[::answers]]
    named = sum(choice.tokens_max for choice in choices if choice.tokens_max is not None)
    unnamed = sum(1 for choice in choices if choice.tokens_max is None)
    return Estimate(
        sum(size // BYTES_PER_TOKEN_MAX for size in prompts) + named + unnamed,
        sum(size // BYTES_PER_TOKEN for size in prompts) + named + unnamed * USUAL_ANSWER,
    )


def _prompt_bytes(choice: Generate) -> int:
    """Return the bytes of a prompt; if only its tokens are known, the bytes that these usually have. A question without
    computation takes none."""
    if not choice.computes:
        return 0
    if choice.texts is not None:
        tokens = sum(map(len, choice.texts.tokens)) * BYTES_PER_TOKEN
        return tokens + sum(len(text.encode(errors="replace")) for text in choice.texts.texts)
    if choice.prompt_tokens is not None:
        return len(choice.prompt_tokens) * BYTES_PER_TOKEN
    if choice.prompt is not None:
        return len(choice.prompt.encode(errors="replace"))
    return len(orjson.dumps((choice.messages, choice.tools)))
