"""What single tokens are, with tokenizers as models have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.utils import load
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from reconciler.runner.model.token_text import BYTES, Detokenizer, TokenTexts

TEXT = "Hello, it's 5 °C — 🦙 日本\n\tso"


def fast(tokenizer: Tokenizer, decoder: Any) -> PreTrainedTokenizerFast:
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def sentencepiece() -> PreTrainedTokenizerFast:
    """As Llama 2, Mistral and Gemma have it."""
    letters = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"\u2581Helo,its5Cs", "\u2581it"]
    vocabulary = {token: id for id, token in enumerate(dict.fromkeys(letters))}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    return fast(
        tokenizer,
        decoders.Sequence(
            [
                decoders.Replace("\u2581", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        ),
    )


def byte_level() -> PreTrainedTokenizerFast:
    vocabulary = {token: id for id, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return fast(tokenizer, decoders.ByteLevel())


@pytest.mark.parametrize("make", [sentencepiece, byte_level])
def test_bytes_of_tokens_joined_are_the_text(make: Any) -> None:
    tokenizer = make()
    texts = TokenTexts(tokenizer, frozenset())
    shown = [texts.of(token) for token in tokenizer.encode(TEXT)]
    assert b"".join(bytes(content or ()) for _, content in shown).decode() == TEXT
    assert [text for text, _ in shown][:5] == list("Hello")
    assert ("\ufffd", (0xF0,)) in shown


@pytest.mark.parametrize("make", [sentencepiece, byte_level])
def test_a_special_token_has_a_name_and_adds_nothing_to_an_answer(make: Any) -> None:
    tokenizer = make()
    end = tokenizer.convert_tokens_to_ids("<|end|>")
    assert TokenTexts(tokenizer, frozenset([end])).of(end) == ("<|end|>", None)
    assert TokenTexts(tokenizer, frozenset()).of(end) == ("<|end|>", tuple(b"<|end|>"))


def test_ids_with_which_a_model_fills_up_are_nothing() -> None:
    tokenizer = byte_level()
    assert TokenTexts(tokenizer, frozenset()).of(len(tokenizer)) == ("", None)


class Slow:
    """A tokenizer of a model's own, written in Python."""

    def __len__(self) -> int:
        return 2

    def decode(self, tokens: list[int], **_: Any) -> str:
        return "".join(["é", "\ufffd"][token] for token in tokens)

    def convert_ids_to_tokens(self, token: int) -> str:
        return f"token {token}"


def test_of_an_unknown_kind_of_tokenizer_the_bytes_are_known_of_whole_characters() -> None:
    texts = TokenTexts(Slow(), frozenset())
    assert texts.of(0) == ("é", tuple("é".encode()))
    assert texts.of(1) == ("\ufffd", None)


def test_the_examples_tokenizer_is_read_too(tiny: Path) -> None:
    tokenizer: Any = load(str(tiny))[1]
    texts = TokenTexts(tokenizer, frozenset())
    tokens = tokenizer.encode(TEXT, add_special_tokens=False)
    assert b"".join(bytes(texts.of(token)[1] or ()) for token in tokens).decode() == TEXT


def test_each_byte_has_one_character() -> None:
    assert sorted(BYTES.values()) == list(range(256))
    assert set(BYTES) == set(pre_tokenizers.ByteLevel.alphabet())


TOKENIZERS = {make.__name__: make() for make in (sentencepiece, byte_level)}


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
def test_the_pieces_of_an_answer_joined_are_its_text(name: str, data: Any) -> None:
    tokenizer = TOKENIZERS[name]
    silent = frozenset([tokenizer.convert_tokens_to_ids("<|end|>")])
    texts = TokenTexts(tokenizer, silent)
    words = st.text(alphabet="Helo it5\u00b0\u65e5\U0001f999", max_size=12)
    tokens = tokenizer.encode("".join(data.draw(st.lists(words, max_size=4))))
    at = data.draw(st.integers(0, len(tokens)))
    detokenizer = Detokenizer(texts)
    pieces = [detokenizer.text(token) for token in (*tokens[:at], *silent, *tokens[at:])]
    assert "".join([*pieces, detokenizer.rest()]) == texts.decode(tokens)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_token_that_needs_no_other_is_decoded_once_for_all_answers(name: str) -> None:
    texts = TokenTexts(TOKENIZERS[name], frozenset())
    hello = TOKENIZERS[name].encode("Hello it")
    decoded = [texts.added(token) for token in hello]
    assert "".join(text or "" for text in decoded) == "Hello it"


def test_tokens_of_a_tokenizer_that_looks_around_are_decoded_together() -> None:
    words = {"[UNK]": 0, "a": 1, "##b": 2, "c": 3}
    tokenizer = fast(Tokenizer(models.WordPiece(vocab=words)), decoders.WordPiece())
    texts = TokenTexts(tokenizer, frozenset())
    assert [texts.added(token) for token in (1, 2, 3)] == [None] * 3
    detokenizer = Detokenizer(texts)
    assert [detokenizer.text(token) for token in (1, 2, 3)] == ["a", "b", " c"]
