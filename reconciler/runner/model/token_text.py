"""Text and bytes of single tokens, and the text of an answer piece by piece.

Written against transformers 5.23 and the version of tokenizers that it needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

BYTE_LEVEL = "ByteLevel"
SPACED = frozenset(["Metaspace", "ByteFallback"])
"""Decoders of tokenizers that write a space as U+2581, and a lone byte as ``<0x0A>``."""
BYTE = re.compile("<0x([0-9A-F]{2})>")
JOINING = SPACED | {BYTE_LEVEL, "Sequence", "Replace", "Fuse", "Strip"}
"""Decoders that join the texts of tokens. At the beginning of a text, some of them drop a space."""
LETTERS = "aeiou"
HELD_TOKENS_MAX = 8
"""Tokens for which an incomplete character is held back; a character has four bytes at most."""


class TokenTexts:
    """Text and bytes of tokens, whatever comes before and after them."""

    def __init__(self, tokenizer: Any, silent: Set[int]) -> None:
        """``silent`` tokens have no text in an answer. Takes milliseconds."""
        self._tokenizer = tokenizer
        self._silent = silent
        self._added = {id: str(token) for id, token in getattr(tokenizer, "added_tokens_decoder", {}).items()}
        decoders = list(_decoders(tokenizer))
        self._kinds = frozenset(decoder["type"] for decoder in decoders)
        self._letter = self._find_letter() if decoders and all(map(_joins, decoders)) else None
        self._known: dict[int, tuple[str, tuple[int, ...] | None]] = {}
        self._added_text: dict[int, str | None] = {}

    def of(self, token: int) -> tuple[str, tuple[int, ...] | None]:
        """Return the text of a token, and the bytes that it adds to an answer: None if it adds none, or if they are not
        known."""
        found = self._known.get(token)
        if found is None:
            found = self._known[token] = self._of(token)
        return found

    def added(self, token: int) -> str | None:
        """Return what a token adds to a text that ends with a whole character; None if that depends on other tokens."""
        try:
            return self._added_text[token]
        except KeyError:
            found = self._added_text[token] = self._find_added(token)
            return found

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens that are alone."""
        return str(self._tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))

    def _find_added(self, token: int) -> str | None:
        if token in self._silent or token >= len(self._tokenizer):
            return ""
        if self._letter is None or token in self._added:
            return None
        text = self.decode([self._letter, token])[1:]
        return None if "\ufffd" in text or not text else text

    def _find_letter(self) -> int | None:
        """Return a token that is one letter, behind which others can be seen."""
        known = self._tokenizer.get_vocab()
        found = [known[letter] for letter in LETTERS if letter in known]
        return next((token for token in found if self.decode([token]) in LETTERS), None)

    def _of(self, token: int) -> tuple[str, tuple[int, ...] | None]:
        if token >= len(self._tokenizer):
            return "", None
        if token in self._added:
            text = self._added[token]
            return text, None if token in self._silent else tuple(text.encode("utf-8", "surrogatepass"))
        content = self._bytes(token)
        if content is None:
            return self.decode([token]), None
        return content.decode("utf-8", "replace"), None if token in self._silent else tuple(content)

    def _bytes(self, token: int) -> bytes | None:
        """Return the bytes that a token stands for; None if nothing tells."""
        written = str(self._tokenizer.convert_ids_to_tokens(token))
        if BYTE_LEVEL in self._kinds and all(character in BYTES for character in written):
            return bytes(BYTES[character] for character in written)
        if self._kinds & SPACED:
            byte = BYTE.fullmatch(written)
            return bytes([int(byte[1], 16)]) if byte else written.replace("\u2581", " ").encode()
        text = self.decode([token])
        return None if "\ufffd" in text else text.encode("utf-8", "surrogatepass")


def _decoders(tokenizer: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the decoders that a tokenizer consists of; none of one that is not of ``tokenizers``."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    left = [json.loads(decoder.__getstate__())] if decoder is not None else []
    while left:
        described = left.pop()
        yield described
        left.extend(described.get("decoders", ()))


def _joins(decoder: Mapping[str, Any]) -> bool:
    if decoder["type"] == "Replace":
        return len(decoder["pattern"].get("String", "")) == 1
    return decoder["type"] in JOINING and not decoder.get("stop")


def _bytes_by_character() -> dict[str, int]:
    """Return the bytes that byte-level tokenizers write as each character (GPT-2's ``bytes_to_unicode``)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + at): byte for at, byte in enumerate(others)}


BYTES = _bytes_by_character()


class Detokenizer:
    """Token ids of one answer to text, piece by piece, at a cost that does not grow with the answer.

    Tokens are decoded together with those just before them where what they say depends on them. Special tokens have no
    text, nor have ids beyond the tokenizer's, with which some models fill up.
    """

    def __init__(self, texts: TokenTexts) -> None:
        self._texts = texts
        self._before: list[int] = []
        self._released: str | None = ""
        """The text of ``_before`` alone; None while nobody needed it."""
        self._held: list[int] = []

    def text(self, token: int) -> str:
        """Return the text that this token completes; empty within a character."""
        added = self._texts.added(token)
        if added is not None and self._before and not self._held:
            if added:
                self._before, self._released = [token], None
            return added
        if added == "":
            return ""
        self._held.append(token)
        text = self._texts.decode(self._before + self._held)
        if not text.endswith("\ufffd"):
            return self._release(text)
        return self.rest() if len(self._held) >= HELD_TOKENS_MAX else ""

    def rest(self) -> str:
        """Return the held text, which no later token completes."""
        return self._release(self._texts.decode(self._before + self._held)) if self._held else ""

    def _release(self, text: str) -> str:
        released = self._texts.decode(self._before) if self._released is None else self._released
        self._before, self._held, self._released = self._held, [], None
        return text[len(released) :]
