"""Log-probabilities as OpenAI's chat completions and its legacy completions write them. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any

from reconciler.wire.generation import Likely, TokenLogprobs


def chat_logprobs(tokens: Sequence[TokenLogprobs]) -> dict[str, Any]:
    """Return the ``logprobs`` of a choice."""
    return {"content": _listed(tokens, _entry), "refusal": None}


def text_logprobs(tokens: Sequence[TokenLogprobs]) -> list[dict[str, Any]]:
    """Return the ``logprobs`` of a text of the Responses API, which always have ``bytes``."""
    return _listed(tokens, _whole)


def _listed(
    tokens: Sequence[TokenLogprobs], entry: Callable[[Likely], dict[str, Any]]
) -> list[dict[str, Any]]:
    return [
        {**entry(one.chosen), "top_logprobs": [entry(likely) for likely in one.likeliest]} for one in tokens
    ]


def _whole(likely: Likely) -> dict[str, Any]:
    return {**_entry(likely), "bytes": likely.bytes or ()}


def _entry(likely: Likely) -> dict[str, Any]:
    return {"token": _shown(likely, ""), "logprob": likely.logprob, "bytes": likely.bytes}


class CompletionLogprobs:
    """Writes the ``logprobs`` of one choice, part by part."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0
        """Characters of text before the next token."""

    def of(self, tokens: Sequence[TokenLogprobs]) -> dict[str, Any]:
        """Return the log-probabilities of the next tokens."""
        return {
            "tokens": [_shown(one.chosen, "bytes:") for one in tokens],
            "token_logprobs": [one.chosen.logprob for one in tokens],
            "top_logprobs": [_by_token(one) for one in tokens],
            "text_offset": [self._next_offset(one.chosen) for one in tokens],
        }

    def _next_offset(self, chosen: Likely) -> int:
        """Return the offset of a token. A token within a character begins where the character does."""
        offset = self._offset
        self._offset += len(self._decoder.decode(bytes(chosen.bytes or ())))
        return offset


def _by_token(one: TokenLogprobs) -> dict[str, float]:
    """Return the likeliest tokens and the chosen one. If it is not among them, that is one more than the client asked
    for."""
    found: dict[str, float] = {}
    for likely in (*one.likeliest, one.chosen):
        found.setdefault(_shown(likely, "bytes:"), likely.logprob)
    return found


def _shown(likely: Likely, before: str) -> str:
    r"""Return the text of a token. For a part of a character, return ``before`` and its bytes, such as
    ``\xf0\x9f``."""
    if likely.bytes is None:
        return likely.text
    try:
        return bytes(likely.bytes).decode()
    except UnicodeDecodeError:
        return before + "".join(f"\\x{byte:02x}" for byte in likely.bytes)
