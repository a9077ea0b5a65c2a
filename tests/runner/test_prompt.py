"""What is found out about a request before it costs anybody anything."""

from __future__ import annotations

import pytest

from reconciler.runner.adapter import Tokenizer
from reconciler.runner.prompt import Unanswerable, check_length, read_prompt
from reconciler.wire.generation import Generate

from .ranks import question

CONTEXT = 64


def refusal(wish: Generate, tokenizer: Tokenizer) -> tuple[str, str]:
    with pytest.raises(Unanswerable) as caught:
        read_prompt(wish, tokenizer, 304, CONTEXT)
    failed = caught.value.failed("a")
    return failed.code, failed.text


def test_text_that_no_tokenizer_makes_fit_is_refused_unread(endless_tokenizer: Tokenizer) -> None:
    most = CONTEXT * endless_tokenizer.token_bytes_max
    assert check_length(question("a", "é" * 10), endless_tokenizer, CONTEXT) == 20 + len("user")
    with pytest.raises(Unanswerable) as caught:
        check_length(question("a", "", tools=({"x": ["a" * most]},)), endless_tokenizer, CONTEXT)
    assert caught.value.failed("a").code == "context_length_exceeded"


def test_a_long_text_is_seen_to_be_too_long_after_a_part_of_it(endless_tokenizer: Tokenizer) -> None:
    code, text = refusal(question("a", "long " * 1000), endless_tokenizer)
    assert code == "context_length_exceeded"
    assert "has more than" in text
    code, text = refusal(question("a", "long " * 20), endless_tokenizer)
    assert code == "context_length_exceeded"
    assert "tokens; with at least one" in text


def test_an_answer_that_is_complete_already_has_its_last_events(endless_tokenizer: Tokenizer) -> None:
    resume = tuple(endless_tokenizer.plain("yes"))
    prompt = read_prompt(question("a", "", tokens_max=3, resume=resume), endless_tokenizer, 304, CONTEXT)
    (finished,) = prompt.last
    assert (finished.reason, finished.completion_tokens) == ("length", 3)  # type: ignore[union-attr]
