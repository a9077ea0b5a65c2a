"""What is found out about a request before it costs anybody anything."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.runner.model.adapter import Tokenizer
from reconciler.runner.requests.prompt import check_length, read_prompt
from reconciler.runner.requests.unanswerable import Unanswerable
from reconciler.wire.generation import Generate
from reconciler.wire.sampling import Bias, Ending, Sampling
from tests.runner.ranks import question

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


@pytest.mark.parametrize(("wished", "left"), [(None, CONTEXT - 4), (1000, CONTEXT - 4), (7, 7), (1, 1)])
def test_an_answer_ends_with_the_context_at_the_latest(
    endless_tokenizer: Tokenizer, wished: int | None, left: int
) -> None:
    request = question("a", "", messages=(), prompt_tokens=(5, 6, 7, 8), tokens_max=wished)
    assert read_prompt(request, endless_tokenizer, 304, CONTEXT).tokens_max == left


def test_a_prompt_of_tokens_or_text_needs_no_template(endless_tokenizer: Tokenizer) -> None:
    request = question("a", "", messages=(), prompt_tokens=(5, 6), echo=True)
    prompt = read_prompt(request, endless_tokenizer, 304, CONTEXT)
    assert (prompt.tokens, prompt.text) == ((5, 6), endless_tokenizer.text([5, 6]))
    request = question("a", "", messages=(), prompt="so", echo=True)
    prompt = read_prompt(request, endless_tokenizer, 304, CONTEXT)
    assert (list(prompt.tokens), prompt.text) == (endless_tokenizer.plain("so"), "so")
    assert read_prompt(question("a", "hi"), endless_tokenizer, 304, CONTEXT).text == ""


@pytest.mark.parametrize(
    ("fields", "code", "parameter"),
    [
        ({"prompt": ""}, "invalid_request", "prompt"),
        ({"prompt": "long " * 20}, "context_length_exceeded", "prompt"),
        ({"prompt": "\ud800"}, "invalid_request", "prompt"),
        ({"prompt_tokens": ()}, "invalid_request", "prompt"),
        ({"prompt_tokens": (304,)}, "invalid_request", "prompt"),
        ({"prompt_tokens": (-1,)}, "invalid_request", "prompt"),
        ({"prompt_tokens": (5,) * CONTEXT}, "context_length_exceeded", "prompt"),
        ({"tokens_max": 0}, "invalid_request", "tokens_max"),
        ({"stop": ("a",) * 65}, "invalid_request", "stop"),
        ({"stop": ("a", "")}, "invalid_request", "stop"),
        ({"stop": ("a" * 4097,)}, "invalid_request", "stop"),
        ({"sampling": Sampling(temperature=-0.1)}, "invalid_request", "temperature"),
        ({"sampling": Sampling(temperature=100.1)}, "invalid_request", "temperature"),
        ({"sampling": Sampling(temperature=float("nan"))}, "invalid_request", "temperature"),
        ({"sampling": Sampling(top_p=1.1)}, "invalid_request", "top_p"),
        ({"sampling": Sampling(min_p=-0.1)}, "invalid_request", "min_p"),
        ({"sampling": Sampling(top_k=-1)}, "invalid_request", "top_k"),
        ({"sampling": Sampling(biases=(Bias(304, 1.0),))}, "invalid_request", "logit_bias"),
        ({"sampling": Sampling(biases=(Bias(-1, 1.0),))}, "invalid_request", "logit_bias"),
        ({"sampling": Sampling(biases=(Bias(1, float("nan")),))}, "invalid_request", "logit_bias"),
        ({"sampling": Sampling(repetition_penalty=0.0)}, "invalid_request", "repetition_penalty"),
        ({"sampling": Sampling(repetition_penalty=101.0)}, "invalid_request", "repetition_penalty"),
        ({"sampling": Sampling(frequency_penalty=2.1)}, "invalid_request", "frequency_penalty"),
        ({"sampling": Sampling(presence_penalty=-2.1)}, "invalid_request", "presence_penalty"),
        ({"ending": Ending(stop_tokens=(5, 304))}, "invalid_request", "stop_token_ids"),
        ({"ending": Ending(stop_tokens=(-1,))}, "invalid_request", "stop_token_ids"),
        ({"logprobs": 21}, "invalid_request", "logprobs"),
        ({"logprobs": -1}, "invalid_request", "logprobs"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_the_name_of_its_parameter(
    endless_tokenizer: Tokenizer, fields: dict[str, Any], code: str, parameter: str
) -> None:
    request = question("a", "hi", **fields)
    with pytest.raises(Unanswerable) as caught:
        read_prompt(request, endless_tokenizer, 304, CONTEXT)
    failed = caught.value.failed("a")
    assert (failed.code, failed.parameter) == (code, parameter)


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt_tokens": (0,) * (CONTEXT - 1)},
        {"prompt_tokens": (303,)},
        {"stop": ("a" * 4096,) * 64},
        {"sampling": Sampling(temperature=0.0, top_p=0.0, min_p=0.0, top_k=0)},
        {"sampling": Sampling(temperature=100.0, top_p=1.0, min_p=1.0, top_k=1)},
        {"sampling": Sampling(biases=(Bias(0, -100.0), Bias(303, 100.0)))},
        {"sampling": Sampling(repetition_penalty=0.01, frequency_penalty=2.0, presence_penalty=-2.0)},
        {"sampling": Sampling(repetition_penalty=100.0), "logprobs": 20},
        {"ending": Ending(tokens_min=10**6, ignore_end=True, stop_tokens=(0, 303)), "logprobs": 0},
    ],
)
def test_what_is_just_within_the_limits_is_answered(
    endless_tokenizer: Tokenizer, fields: dict[str, Any]
) -> None:
    assert read_prompt(question("a", "hi", **fields), endless_tokenizer, 304, CONTEXT).tokens_max > 0
