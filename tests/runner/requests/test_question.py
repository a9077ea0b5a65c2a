"""Questions about a prompt, as rank 0 reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlx_lm.utils import load
from tokenizers.processors import TemplateProcessing

from reconciler.runner.model.adapter import Tokenizer
from reconciler.runner.requests.prompt import Prompt, check_length, read_prompt
from reconciler.runner.requests.unanswerable import Unanswerable
from reconciler.wire.generation import Finished, Generate
from reconciler.wire.question import Question
from tests.runner.ranks import question

CONTEXT = 16


def asked(text: str, what: Question | None = None, **fields: object) -> Generate:
    return question("a", text, tokens_max=0, question=what or Question(), **fields)


def read(wish: Generate, tokenizer: Tokenizer, context: int = CONTEXT) -> Prompt:
    return read_prompt(wish, tokenizer, 304, context)


def test_its_answer_is_complete_before_any_step(endless_tokenizer: Tokenizer) -> None:
    charged = read(question("a", "how?"), endless_tokenizer, 64).tokens
    prompt = read(asked("how?"), endless_tokenizer)
    (finished,) = prompt.last
    assert isinstance(finished, Finished)
    assert (finished.prompt_tokens, finished.completion_tokens) == (len(charged), 0)
    assert (prompt.tokens, prompt.tokens_max, prompt.token_texts) == ((), 0, ())


def test_tokens_and_how_they_are_shown_are_told_if_asked_for(endless_tokenizer: Tokenizer) -> None:
    prompt = read(asked("how?", Question(tokens=True, token_texts=True)), endless_tokenizer)
    assert prompt.tokens == tuple(endless_tokenizer.rendered("<|start|>user:how?<|end|><|start|>assistant:"))
    assert len(prompt.token_texts) == len(prompt.tokens)
    assert prompt.token_texts[0] == "<|start|>"


def test_nothing_at_all_has_no_tokens_and_no_text(endless_tokenizer: Tokenizer) -> None:
    for empty in ({"prompt": ""}, {"prompt_tokens": (), "echo": True}):
        prompt = read(asked("", Question("it", tokens=True), messages=(), **empty), endless_tokenizer)
        assert (prompt.tokens, prompt.text) == ((), "")


@pytest.mark.parametrize("tokens", [(304,), (5,) * 65])
def test_what_is_wrong_has_the_clients_name(endless_tokenizer: Tokenizer, tokens: tuple[int, ...]) -> None:
    with pytest.raises(Unanswerable) as caught:
        read(asked("", Question("tokens"), messages=(), prompt_tokens=tokens), endless_tokenizer)
    assert caught.value.failed("a").parameter == "tokens"


def test_too_many_tokens_are_refused_unread(endless_tokenizer: Tokenizer) -> None:
    wish = asked("", messages=(), prompt_tokens=(5,) * 65)
    with pytest.raises(Unanswerable, match="the most that can be asked about is 64"):
        check_length(wish, endless_tokenizer, CONTEXT)


def test_an_answer_still_needs_a_token(endless_tokenizer: Tokenizer) -> None:
    with pytest.raises(Unanswerable) as caught:
        read(question("a", "", tokens_max=0), endless_tokenizer, 64)
    assert caught.value.failed("a").parameter == "tokens_max", "by which a newer gateway knows an older rank"


@pytest.mark.parametrize(
    ("text", "special_tokens", "added"),
    [
        ("", None, False),
        ("", False, False),
        ("", True, True),
        ("how?", None, True),
        ("how?", False, False),
        ("how?", True, True),
    ],
)
def test_the_special_tokens_of_the_tokenizer_are_added_where_a_question_asks_for_them_and_to_a_prompt(
    text: str, special_tokens: bool | None, added: bool, endless: Path
) -> None:
    wrapped: Any = load(str(endless))[1]
    start = wrapped.convert_tokens_to_ids("<|start|>")
    wrapped._tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|start|> $A", special_tokens=[("<|start|>", start)]
    )
    what = Question(tokens=True, special_tokens=special_tokens)
    wish = asked("", what, messages=(), prompt=text) if text else asked("how?", what)
    prompt = read(wish, Tokenizer(wrapped), 64)
    assert prompt.tokens.count(start) == added + (0 if text else 2)
