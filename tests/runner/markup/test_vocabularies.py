"""The vocabularies of the tests of templates split texts as llama.cpp says that they do."""

from __future__ import annotations

import pytest

from .collection import vocabulary
from .vocabularies import VOCABULARIES

pytestmark = [pytest.mark.second_tier, pytest.mark.timeout(600)]

SEPARATOR = "\n__ggml_vocab_test__\n"
COUNTS = {"llama-bpe": 47, "qwen2": 47, "qwen35": 51, "gemma-4": 46, "command-r": 47}


@pytest.mark.parametrize("name", COUNTS)
def test_texts_have_the_tokens_that_the_real_tokenizer_gives_them(name: str) -> None:
    path = vocabulary(name)
    texts = path.with_name(f"{path.name}.inp").read_bytes().decode().split(SEPARATOR)
    rows = path.with_name(f"{path.name}.out").read_text().split("\n")
    expected = [[int(token) for token in row.split()] for row in rows]
    found = VOCABULARIES[name]()
    assert len(texts) == COUNTS[name]
    for text, tokens in zip(texts, expected, strict=False):
        assert found.encode(text, add_special_tokens=False).ids == tokens, repr(text)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_text_is_what_its_tokens_say(name: str) -> None:
    text = 'Zo\u00eb "</b>"\n{"a": [1, 2]} \u4f60\u597d \U0001f642'
    found = VOCABULARIES[name]()
    assert found.decode(found.encode(text, add_special_tokens=False).ids) == text
