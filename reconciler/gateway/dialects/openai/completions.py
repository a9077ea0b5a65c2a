"""``POST /v1/completions``, OpenAI's legacy completions: text or tokens in, their continuation out. Pure but for
``sources``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.known_parameters import refuse_unsupported
from reconciler.gateway.dialects.parameter_table import TEXT
from reconciler.gateway.errors import invalid, older_group, prompt_too_long, unsupported
from reconciler.gateway.events import Part, Piece
from reconciler.wire.form import FREE
from reconciler.wire.generation import Accepted, Delta, Finished, Generate, Scored, TokenLogprobs

from .event_stream import EventStream
from .form import parse_content_form
from .logprobs import CompletionLogprobs
from .model_list import only_model
from .parameters import (
    LIKELIEST_MAX,
    TOKEN_IDS,
    parse_answers,
    parse_ending,
    parse_include_usage,
    parse_model,
    parse_object,
    parse_repetition,
    parse_sampling,
    parse_session,
    parse_stop,
    parse_texts,
    parse_unset,
    several,
)
from .shape import Heading, dumps, finish, header, new_heading, usage

PROMPTS_MAX = 64
TOKENS_USUAL = 16
"""OpenAI's default for ``max_tokens`` here."""
TOKENS_MAX = 1 << 20
"""No model has a longer context; parsing more would only delay other requests."""


@dataclasses.dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A parsed request, and how to write the answers."""

    model: str
    """Empty if the client names none."""
    choices: Sequence[Generate]
    """``answers`` for each prompt, prompt by prompt, without ids: these belong to attempts."""
    answers: int
    stream: bool
    include_usage: bool
    session: str
    """As for chats."""


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the answers. Raises ``ApiError`` (400)."""
    request = parse_completion(body, sources.new_seed())
    model = request.model or only_model(catalog)
    heading = new_heading("cmpl-", model, sources)
    shape = CompletionStream if request.stream else CompletionReply
    return Parsed(model, request.choices, shape(request, heading), request.session, (), request.answers)


def parse_completion(body: bytes, drawn_seed: int) -> CompletionRequest:
    """Check a body and translate it. ``drawn_seed`` is for a client that gave none.

    Raises ``ApiError`` (400) with the path of the field that is wrong.
    """
    fields = parse_object(body)
    answers = parse_answers(fields)
    likeliest = _logprobs(fields)
    scored = likeliest is not None and fields.flag("echo")
    refuse_unsupported(fields, TEXT)
    _check_best_of(fields, answers)
    tokens_max = fields.integer("max_tokens", TOKENS_USUAL, low=0 if scored else 1)
    generate = Generate(
        request="",
        messages=(),
        tokens_max=tokens_max,
        stop=parse_stop(fields),
        sampling=parse_sampling(fields, drawn_seed),
        echo=fields.flag("echo"),
        ending=parse_ending(fields, tokens_max),
        repetition=parse_repetition(fields),
        logprobs=likeliest,
        unset=parse_unset(fields),
        form=parse_content_form(fields) or FREE,
        scores=likeliest if scored else None,
    )
    prompts = [dataclasses.replace(generate, **prompt) for prompt in _prompts(fields)]
    return CompletionRequest(
        model=parse_model(fields),
        choices=[choice for prompt in prompts for choice in several(prompt, answers)],
        answers=answers,
        stream=fields.flag("stream"),
        include_usage=parse_include_usage(fields),
        session=parse_session(fields),
    )


def _logprobs(fields: Fields) -> int | None:
    """Return how many of the likeliest tokens to report with each token; None for no log-probabilities."""
    if fields.value("logprobs") is False:  # as clients of mlx_lm.server write it
        return None
    count = fields.optional_integer("logprobs", low=0, high=LIKELIEST_MAX)
    if count is not None and fields.flag("echo") and fields.flag("stream"):
        raise unsupported("a stream of logprobs with echo", "stream", "those of a prompt come in one piece")
    return count


def _check_best_of(fields: Fields, answers: int) -> None:
    if fields.integer("best_of", answers, low=1, high=20) != answers:
        raise unsupported("a best_of other than n", "best_of")


def _prompts(fields: Fields) -> Sequence[dict[str, Any]]:
    """Return the prompt of each completion, as a field of ``Generate``."""
    prompts = parse_texts(fields, "prompt", PROMPTS_MAX, "prompts")
    return [_prompt(prompt, index, len(prompts)) for index, prompt in enumerate(prompts)]


def _prompt(prompt: object, index: int, count: int) -> dict[str, Any]:
    if prompt and isinstance(prompt, str):
        return {"prompt": prompt}
    if isinstance(prompt, list) and len(prompt) > TOKENS_MAX:
        raise prompt_too_long(len(prompt), TOKENS_MAX)
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        for token in prompt:
            if not 0 <= token < TOKEN_IDS:
                raise invalid(f"there is no token {token}", "prompt")
        return {"prompt_tokens": tuple(prompt)}
    where = "prompt" if count == 1 else f"prompt[{index}]"
    raise invalid(f"{where} must be a non-empty string or a non-empty list of token ids", "prompt")


class CompletionStream(EventStream):
    """Writes the answers as server-sent events."""

    def __init__(self, request: CompletionRequest, heading: Heading) -> None:
        count = len(request.choices)
        super().__init__(heading, "text_completion", request.include_usage, count, request.answers)
        self._logprobs = [CompletionLogprobs() for _ in request.choices]

    def keep_alive(self) -> bytes:
        return self._chunk(_choice(next(iter(self._open)), "", None, None))

    def _encode_one(self, index: int, answer: Part) -> bytes:
        if isinstance(answer, Finished):
            return self._chunk(_choice(index, "", answer, None)) + self._end(index, answer)
        text, tokens = _text(answer), answer.logprobs if isinstance(answer, Delta) else ()
        logprobs = self._logprobs[index].of(tokens) if tokens else None
        return self._chunk(_choice(index, text, None, logprobs)) if text or tokens else b""


class CompletionReply:
    """Writes the answers as one JSON object."""

    def __init__(self, request: CompletionRequest, heading: Heading) -> None:
        self._request = request
        self._heading = heading
        self._texts: list[list[str]] = [[] for _ in request.choices]
        self._logprobs: list[list[TokenLogprobs]] = [[] for _ in request.choices]
        self._scored: list[list[TokenLogprobs]] = [[] for _ in request.choices]
        """The tokens of each prompt, if the client wants them."""
        self._finished: dict[int, Finished] = {}

    def add(self, pieces: Sequence[Piece]) -> None:
        for index, answer in pieces:
            self._texts[index].append(_text(answer))
            if isinstance(answer, Scored):
                self._scored[index][answer.first :] = answer.tokens
            if isinstance(answer, Delta):
                self._logprobs[index].extend(answer.logprobs)
            if isinstance(answer, Finished):
                self._finished[index] = answer

    def body(self) -> bytes:
        """Return the completion, once every choice is finished. Raises ``ApiError`` if a group does not report the
        tokens of a prompt."""
        choices = [
            _choice(index, "".join(texts), self._finished[index], self._logprobs_of(index))
            for index, texts in enumerate(self._texts)
        ]
        reply = header(self._heading, "text_completion")
        counted = usage(list(self._finished.values()), self._request.answers)
        return dumps({**reply, "choices": choices, "usage": counted})

    def _logprobs_of(self, index: int) -> dict[str, Any] | None:
        asked, scored = self._request.choices[index], self._scored[index]
        if asked.logprobs is None:
            return None
        if asked.scores is not None and len(scored) < self._finished[index].prompt_tokens:
            raise older_group()
        found = CompletionLogprobs().of([*scored, *self._logprobs[index]])
        if scored:  # no token precedes the first one
            found["token_logprobs"][0] = found["top_logprobs"][0] = None
        return found


def _text(answer: Part) -> str:
    return answer.text if isinstance(answer, (Accepted, Delta)) else ""


def _choice(
    index: int, text: str, finished: Finished | None, logprobs: dict[str, Any] | None
) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, **finish(finished)}
