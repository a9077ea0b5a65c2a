"""A request as token ids, or the reason why it cannot be answered.

Everything a client can get wrong is found here, before the request reaches the loop that all ranks share.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.runner.decode.answer import Answer, Event
from reconciler.runner.forms.answers import Asked
from reconciler.runner.model.adapter import FOREIGN_ERRORS, TEMPLATE_RESERVED, NoTemplate, Tokenizer
from reconciler.runner.model.agreed_batch import Logprobs
from reconciler.wire.generation import Generate, Scored
from reconciler.wire.question import Question
from reconciler.wire.sampling import Ending, Sampling

from .conversation import render, traits_of
from .held import asked_of
from .unanswerable import Unanswerable, invalid

STOP_STRINGS_MAX = 64
STOP_CHARACTERS_MAX = 4096
USUAL_TOKEN_CHARACTERS = 8
"""Text has fewer characters for each token; of a longer text, a part is checked before all of it."""
LIKELIEST_MAX = 20
"""OpenAI's bound of ``top_logprobs``, and the default of vLLM's ``max_logprobs``."""
SEAM_TOKENS = 64
"""Most tokens that a cut may add to a text."""
QUESTION_CONTEXTS = 4
"""So many times the context may be asked about, for who asks may want to know how much to leave out."""
FIRST = Logprobs(0.0, ())
"""For the first token of a prompt, which has no token before it."""
LISTED_MAX = 1 << 18
"""Tokens in a list: a few MiB. The connection holds several lists."""


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A request that can be answered."""

    tokens: tuple[int, ...]
    """Tokens of the conversation, without ``Generate.resume``."""
    tokens_max: int
    """Tokens that may still come; 0 when the answer is already as long as it may be."""
    answer: Answer
    last: tuple[Event, ...] = ()
    """The events that end the answer, if ``Generate.resume`` holds all of it."""
    text: str = ""
    """The prompt as text, if ``Generate.echo`` requests it."""
    token_texts: tuple[str, ...] = ()
    """The texts of the tokens, if ``Question.token_texts`` requests them."""
    texts: tuple[tuple[int, ...], ...] = ()
    """Token ids of each text whose vector is wanted; there is no prompt then."""
    asked: Asked | None = None
    """The form of the rest of the answer; None if it is free."""
    scored: tuple[Scored, ...] = ()
    """The report of the prompt's first token, which needs no reading, if ``Generate.scores`` asks for it."""
    replaced: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Counts of the parts that the chat template did not take, by their names in ``shaping.REPLACED``."""


def check_length(generate: Generate, tokenizer: Tokenizer, context: int) -> int:
    """Return the bytes of text in a request. Raises ``Unanswerable`` if no tokenizer could make them fit.

    Takes milliseconds, while a template and a tokenizer take seconds.
    """
    length = 0
    bound = _bound(generate, context)
    if generate.prompt_tokens is not None and len(generate.prompt_tokens) > bound:
        raise _too_long(f"has {len(generate.prompt_tokens)} tokens", generate, context)
    parts: list[Any] = [generate.messages, generate.tools, generate.prompt]
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            length += len(part.encode("utf-8", "surrogatepass"))
        elif isinstance(part, Mapping):
            parts.extend(part.values())
        elif isinstance(part, (list, tuple)):
            parts.extend(part)
    most = (bound + 1) * tokenizer.token_bytes_max
    if length > most:
        what = f"has {length} bytes of text, and {bound + 1} tokens of this model hold {most}"
        raise _too_long(what, generate, context)
    return length


def read_prompt(generate: Generate, tokenizer: Tokenizer, vocabulary: int, context: int) -> Prompt:
    """Check and tokenize a request. Raises ``Unanswerable``."""
    _check_sampling(generate.sampling)
    _check_stop(generate.stop)
    _check_biases(generate.sampling, vocabulary)
    _check_ending(generate.ending, vocabulary)
    _check_logprobs(generate.logprobs)
    _check_logprobs(generate.scores)
    what = _prompt_parameter(generate)
    tokens, replaced = _tokens(generate, tokenizer, context)
    if not tokens and generate.question is None:
        raise invalid("the prompt is empty: the model needs at least one token to continue from", what)
    if not all(0 <= token < vocabulary for token in (*tokens, *generate.resume)):
        raise invalid(f"the prompt has unknown tokens: ids must be below {vocabulary}", what)
    if len(tokens) > _bound(generate, context):
        raise _too_long(f"has {len(tokens)} tokens", generate, context)
    tokens_left = _tokens_left(generate, context - len(tokens))
    asked = asked_of(generate, tokens, tokenizer) if generate.question is None else None
    answer = Answer(generate, tokens, tokenizer)
    last: list[Event] = []
    scored = (answer.scored(0, [FIRST]),) if _is_scored(generate) else ()
    if answer.stopped or not (tokens_left or (scored and len(tokens) > 1)):
        last = answer.finish("stop" if answer.stopped else "length")
    text = ""
    if generate.echo:
        text = tokenizer.text(tokens) if generate.prompt is None else generate.prompt
    question = generate.question
    texts = tokenizer.shown(tokens) if question is not None and question.token_texts else ()
    listed = () if question is not None and not question.tokens else tuple(tokens)
    return Prompt(
        listed,
        tokens_left,
        answer,
        tuple(last),
        text,
        asked=None if last else asked,
        scored=scored,
        token_texts=texts,
        replaced=replaced,
    )


def _bound(generate: Generate, context: int) -> int:
    """Return the most tokens of a prompt."""
    question = generate.question
    if question is None:
        return context - 1
    most = QUESTION_CONTEXTS * context
    return min(most, LISTED_MAX) if question.tokens or generate.echo else most


def _prompt_parameter(generate: Generate) -> str:
    if generate.question is not None and generate.question.called:
        return generate.question.called
    return "messages" if generate.prompt is None and generate.prompt_tokens is None else "prompt"


def _tokens(generate: Generate, tokenizer: Tokenizer, context: int) -> tuple[list[int], Mapping[str, int]]:
    """Return the token ids of the prompt, and what of the conversation was replaced."""
    if generate.prompt_tokens is not None:
        return list(generate.prompt_tokens), {}
    question = generate.question or Question()
    if generate.prompt is not None:
        encode = tokenizer.rendered if question.special_tokens is False else tokenizer.plain
        return _encoded(encode, generate.prompt, generate, context), {}
    what = "tools" if generate.tools else "messages"
    for name in generate.template:
        if name in TEMPLATE_RESERVED:
            raise invalid(f"{name} is no variable of a chat template", "chat_template_kwargs")
    try:
        rendered = render(
            generate.messages, generate.tools, tokenizer, generate.template, question.generation_prompt
        )
    except NoTemplate as error:
        raise invalid(str(error), what) from None
    except FOREIGN_ERRORS as error:
        raise invalid(f"the model's chat template rejects these {what}: {error!s:.400}", what) from None
    if generate.tools and (why := tools_problem(tokenizer)):
        raise invalid(f"{why}: send no tools, or use another model", "tools")
    encode = tokenizer.plain if question.special_tokens else tokenizer.rendered
    return _encoded(encode, rendered.text, generate, context), rendered.replaced


def tools_problem(tokenizer: Tokenizer) -> str:
    """Return why this model cannot be given tools; empty if it can."""
    if why := traits_of(tokenizer).tools:
        return why
    if tokenizer.known.family.format is None:
        return "this model writes tool calls in a form that is not known here, so they cannot be read"
    return ""


def _encoded(encode: Callable[[str], list[int]], text: str, generate: Generate, context: int) -> list[int]:
    """Tokenize a prompt, and stop as soon as a part of it shows that it is too long."""
    bound = _bound(generate, context)
    usual = USUAL_TOKEN_CHARACTERS * (bound + 1)
    try:
        if len(text) > usual:
            count = len(encode(text[:usual]))
            if count > bound + 1 + SEAM_TOKENS:
                raise _too_long(f"has more than {count - SEAM_TOKENS} tokens", generate, context)
        return encode(text)
    except FOREIGN_ERRORS as error:
        what = _prompt_parameter(generate)
        raise invalid(f"the model's tokenizer rejects this text: {error!s:.400}", what) from None


def _tokens_left(generate: Generate, left: int) -> int:
    """Return how many tokens may still come, of those for which the context has room."""
    wished = generate.tokens_max
    if generate.question is not None:
        return 0
    least = 0 if _is_scored(generate) else 1
    if wished is not None and wished < least:
        raise invalid(f"tokens_max is {wished}, but must be at least {least}", "tokens_max")
    return max(0, (left if wished is None else min(wished, left)) - len(generate.resume))


def _is_scored(generate: Generate) -> bool:
    """Return whether the prompt's tokens are to be reported: an answer that goes on comes after that."""
    return generate.scores is not None and not generate.resume


def _check_sampling(sampling: Sampling) -> None:
    for name, value, low, high in (
        ("temperature", sampling.temperature, 0.0, 100.0),
        ("top_p", sampling.top_p, 0.0, 1.0),
        ("min_p", sampling.min_p, 0.0, 1.0),
        ("repetition_penalty", sampling.repetition_penalty, 0.01, 100.0),
        ("frequency_penalty", sampling.frequency_penalty, -2.0, 2.0),
        ("presence_penalty", sampling.presence_penalty, -2.0, 2.0),
    ):
        if not (math.isfinite(value) and low <= value <= high):
            raise invalid(f"{name} is {value}, expected {low:g} to {high:g}", name)
    if sampling.top_k < 0:
        raise invalid(f"top_k is {sampling.top_k}, expected 0 (off) or more", "top_k")


def _check_biases(sampling: Sampling, vocabulary: int) -> None:
    for bias in sampling.biases:
        if not 0 <= bias.token < vocabulary:
            raise invalid(f"there is no token {bias.token}: ids must be below {vocabulary}", "logit_bias")
        if not math.isfinite(bias.by):
            raise invalid(f"the bias of token {bias.token} is {bias.by}", "logit_bias")


def _check_ending(ending: Ending, vocabulary: int) -> None:
    for token in ending.stop_tokens:
        if not 0 <= token < vocabulary:
            raise invalid(f"there is no token {token}: ids must be below {vocabulary}", "stop_token_ids")


def _check_logprobs(likeliest: int | None) -> None:
    if likeliest is not None and not 0 <= likeliest <= LIKELIEST_MAX:
        raise invalid(f"logprobs is {likeliest}, expected 0 to {LIKELIEST_MAX}", "logprobs")


def _check_stop(stop: tuple[str, ...]) -> None:
    if len(stop) > STOP_STRINGS_MAX or not all(0 < len(text) <= STOP_CHARACTERS_MAX for text in stop):
        raise invalid(
            f"stop accepts up to {STOP_STRINGS_MAX} strings of 1 to {STOP_CHARACTERS_MAX} characters", "stop"
        )


def _too_long(what: str, generate: Generate, context: int) -> Unanswerable:
    most = f"with at least one token for the answer the most is {context}"
    if generate.question is not None:
        most = f"the most that can be asked about is {_bound(generate, context)}"
    text = f"the prompt {what}; {most}"
    return Unanswerable("context_length_exceeded", text, _prompt_parameter(generate))
