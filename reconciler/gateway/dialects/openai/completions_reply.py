"""OpenAI's legacy completions: prompts without a conversation, and answers to them. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.known_parameters import refuse_unsupported
from reconciler.gateway.dialects.parameter import TEXT
from reconciler.gateway.errors import invalid, older_group, prompt_too_long, unsupported
from reconciler.gateway.events import Part, Piece
from reconciler.wire.form import FREE
from reconciler.wire.generation import Accepted, Delta, Finished, Generate, Scored, TokenLogprobs

from .event_stream import DONE, EventStream
from .form import parse_content_form
from .logprobs import CompletionLogprobs
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
    parse_unset,
    several,
)
from .shape import Heading, dumps, finish, header, usage

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
    value = fields.value("prompt")
    if isinstance(value, str) or (isinstance(value, list) and value and type(value[0]) is int):
        value = [value]
    if not isinstance(value, list) or not value:
        text = "prompt must be a string, a list of token ids, or a list of either, and not empty"
        raise invalid(text, "prompt")
    if len(value) > PROMPTS_MAX:
        raise invalid(f"prompt takes at most {PROMPTS_MAX} prompts, got {len(value)}", "prompt")
    return [_prompt(prompt, index, len(value)) for index, prompt in enumerate(value)]


def _prompt(prompt: object, index: int, count: int) -> dict[str, Any]:
    if prompt and isinstance(prompt, str):
        return {"prompt": prompt}
    if isinstance(prompt, list) and len(prompt) > TOKENS_MAX:
        raise prompt_too_long(len(prompt), TOKENS_MAX)
    if isinstance(prompt, list) and _are_tokens(prompt):
        for token in prompt:
            if not 0 <= token < TOKEN_IDS:
                raise invalid(f"there is no token {token}", "prompt")
        return {"prompt_tokens": tuple(prompt)}
    where = "prompt" if count == 1 else f"prompt[{index}]"
    raise invalid(f"{where} must be a non-empty string or a non-empty list of token ids", "prompt")


def _are_tokens(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int for token in value)


class CompletionStream(EventStream):
    """Writes the answers as server-sent events."""

    def __init__(self, request: CompletionRequest, heading: Heading) -> None:
        self._request = request
        self._head = b"data: " + dumps(header(heading, "text_completion"))[:-1]
        self._no_usage = b',"usage":null' if request.include_usage else b""
        self._open = dict.fromkeys(range(len(request.choices)))
        """The choices that are not finished."""
        self._finished: list[Finished] = []
        self._logprobs = [CompletionLogprobs() for _ in request.choices]

    def keep_alive(self) -> bytes:
        return self._chunk(next(iter(self._open)), "", None)

    def _encode_one(self, index: int, answer: Part) -> bytes:
        if isinstance(answer, Finished):
            self._open.pop(index, None)
            return self._chunk(index, "", answer) + self._end(answer)
        text, tokens = _text(answer), answer.logprobs if isinstance(answer, Delta) else ()
        logprobs = self._logprobs[index].of(tokens) if tokens else None
        return self._chunk(index, text, None, logprobs) if text or tokens else b""

    def _chunk(
        self, index: int, text: str, finished: Finished | None, logprobs: dict[str, Any] | None = None
    ) -> bytes:
        choice = dumps([_choice(index, text, finished, logprobs)])
        return self._head + self._no_usage + b',"choices":' + choice + b"}\n\n"

    def _end(self, finished: Finished) -> bytes:
        self._finished.append(finished)
        if self._open:
            return b""
        if not self._request.include_usage:
            return DONE
        counted = dumps(usage(self._finished, self._request.answers))
        return self._head + b',"choices":[],"usage":' + counted + b"}\n\n" + DONE


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
        """Keep ``pieces`` for the object."""
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
