"""The texts of a question for vectors as token ids, or the reason why there are none."""

from __future__ import annotations

import dataclasses

from reconciler.runner.decode.answer import Answer
from reconciler.runner.model.adapter import FOREIGN_ERRORS, Tokenizer
from reconciler.wire.generation import Generate
from reconciler.wire.question import Texts

from .prompt import USUAL_TOKEN_CHARACTERS, Prompt
from .unanswerable import Unanswerable, invalid

TEXTS_MAX = 4096
"""Texts of one question; OpenAI takes 2048."""


class TextReader:
    """Reads texts for a model for embeddings."""

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: int, context: int, size: int, end: int | None
    ) -> None:
        """``size``: numbers of a vector; ``end``: a token that belongs after a text whose tokenizer adds none there."""
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._context = context
        self._size = size
        self._end = end if end is not None and not _adds_end(tokenizer) else None

    def length(self, generate: Generate) -> int:
        """Return the bytes of the texts. Raises ``Unanswerable`` for too many of them, or one that cannot fit.

        Takes milliseconds.
        """
        asked = _asked(generate)
        count = len(asked.texts) + len(asked.tokens)
        if not 1 <= count <= TEXTS_MAX or (asked.texts and asked.tokens):
            raise invalid(f"there are {count} texts, expected 1 to {TEXTS_MAX}", _name(generate))
        if asked.dimensions is not None and not 1 <= asked.dimensions <= self._size:
            text = f"vectors of this model have {self._size} numbers: expected 1 to {self._size}"
            raise invalid(text, "dimensions")
        most = self._context * self._tokenizer.token_bytes_max
        lengths = [len(text.encode("utf-8", "surrogatepass")) for text in asked.texts]
        for place, length in enumerate(lengths):
            if length > most:
                raise self._too_long(generate, place, f"{length} bytes")
        return sum(lengths) + 4 * sum(map(len, asked.tokens))

    def read(self, generate: Generate) -> Prompt:
        """Return the tokens of each text. Raises ``Unanswerable``."""
        asked = _asked(generate)
        texts = [self._encoded(generate, place, text) for place, text in enumerate(asked.texts)]
        for place, tokens in enumerate(asked.tokens):
            if not tokens or not all(0 <= token < self._vocabulary for token in tokens):
                raise invalid(
                    f"tokens must be ids below {self._vocabulary}, at least one", _name(generate, place)
                )
            texts.append(tokens)
        for place, tokens in enumerate(texts):
            if len(tokens) > self._context:
                raise self._too_long(generate, place, f"{len(tokens)} tokens")
        unheard = Answer(dataclasses.replace(generate, prompt=""), [], self._tokenizer)
        return Prompt((), 0, unheard, texts=tuple(texts))

    def _encoded(self, generate: Generate, place: int, text: str) -> tuple[int, ...]:
        usual = USUAL_TOKEN_CHARACTERS * self._context
        try:
            if len(text) > usual and len(self._tokenizer.plain(text[:usual])) > 2 * self._context:
                raise self._too_long(generate, place, "too many tokens")
            tokens = self._tokenizer.plain(text)
        except FOREIGN_ERRORS as error:
            refusal = f"the model's tokenizer rejects this text: {error!s:.400}"
            raise invalid(refusal, _name(generate, place)) from None
        if self._end is not None:
            tokens.append(self._end)
        if not tokens:
            raise invalid("the text has no tokens", _name(generate, place))
        return tuple(tokens)

    def _too_long(self, generate: Generate, place: int, what: str) -> Unanswerable:
        text = f"the text has {what}; the most is {self._context} tokens"
        return Unanswerable("context_length_exceeded", text, _name(generate, place))


def _asked(generate: Generate) -> Texts:
    assert generate.texts is not None
    return generate.texts


def _name(generate: Generate, place: int | None = None) -> str:
    """Return what the client calls a text, or all of them."""
    assert generate.question is not None
    asked, called = _asked(generate), generate.question.called
    alone = place is None or len(asked.texts) + len(asked.tokens) == 1
    return called if alone else f"{called}[{place}]"


def _adds_end(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer puts a token of its own after a text."""
    try:
        return tokenizer.plain("a")[-1:] != tokenizer.rendered("a")[-1:]
    except FOREIGN_ERRORS:
        return False
