"""The texts of a question for vectors, as rank 0 reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlx_lm.utils import load
from tokenizers.processors import TemplateProcessing

from reconciler.runner.model.adapter import Tokenizer
from reconciler.runner.requests.texts import TEXTS_MAX, TextReader
from reconciler.runner.requests.unanswerable import Unanswerable
from reconciler.wire.generation import Generate
from reconciler.wire.question import Question, Texts

CONTEXT, SIZE, END = 16, 64, 7


def asked(texts: Texts) -> Generate:
    return Generate("a", (), tokens_max=0, question=Question("input", texts=texts))


def reader(tokenizer: Tokenizer, end: int | None = None) -> TextReader:
    return TextReader(tokenizer, 304, CONTEXT, SIZE, end)


def test_a_text_has_the_tokens_of_the_tokenizer_and_the_end_that_it_does_not_add(
    endless_tokenizer: Tokenizer, endless: Path
) -> None:
    plain = tuple(endless_tokenizer.plain("word"))
    wish = asked(Texts(texts=("word",)))
    assert reader(endless_tokenizer).read(wish).texts == (plain,)
    assert reader(endless_tokenizer, END).read(wish).texts == ((*plain, END),)
    wrapped: Any = load(str(endless))[1]
    wrapped._tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A <|start|>", special_tokens=[("<|start|>", wrapped.convert_tokens_to_ids("<|start|>"))]
    )
    adding = Tokenizer(wrapped)
    (tokens,) = reader(adding, END).read(wish).texts
    assert tokens == tuple(adding.plain("word")) != (*plain, END)
    assert tokens[:-1] == plain


def test_token_ids_are_taken_as_they_are(endless_tokenizer: Tokenizer) -> None:
    wish = asked(Texts(tokens=((5, 6), (8,))))
    assert reader(endless_tokenizer, END).read(wish).texts == ((5, 6), (8,))


@pytest.mark.parametrize(
    ("texts", "parameter", "text"),
    [
        (Texts(), "input", "there are 0 texts"),
        (Texts(texts=("a",), tokens=((5,),)), "input", "there are 2 texts"),
        (Texts(texts=("a",) * (TEXTS_MAX + 1)), "input", f"there are {TEXTS_MAX + 1} texts"),
        (Texts(texts=("a",), dimensions=SIZE + 1), "dimensions", f"expected 1 to {SIZE}"),
        (Texts(texts=("a", "long" * 5)), "input[1]", "the text has 20 tokens; the most is 16 tokens"),
        (Texts(texts=("long " * 10_000,)), "input", "the most is 16 tokens"),
        (Texts(tokens=((5,), (5,) * 17)), "input[1]", "the text has 17 tokens"),
        (Texts(tokens=((),)), "input", "at least one"),
        (Texts(tokens=((5,), (304,))), "input[1]", "ids below 304"),
    ],
)
def test_what_is_wrong_has_its_place(
    endless_tokenizer: Tokenizer, texts: Texts, parameter: str, text: str
) -> None:
    def ask() -> None:
        reading = reader(endless_tokenizer)
        reading.length(asked(texts))
        reading.read(asked(texts))

    with pytest.raises(Unanswerable) as caught:
        ask()
    failed = caught.value.failed("a")
    assert failed.parameter == parameter
    assert text in failed.text
