"""``POST /tokenize`` and ``POST /detokenize``: the tokens of a prompt, and the text of tokens. Pure.

Rank 0 answers with the tokenizer and template of every answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.openai.model_list import only_model
from reconciler.gateway.dialects.openai.parameters import TOKEN_IDS, parse_model, parse_object
from reconciler.gateway.dialects.openai.request import parse_conversation
from reconciler.gateway.dialects.openai.shape import dumps
from reconciler.gateway.errors import invalid, unsupported
from reconciler.gateway.events import Piece
from reconciler.wire.generation import Accepted, Finished, Generate
from reconciler.wire.question import Question

_NOT_THERE = ("chat_template", "mm_processor_kwargs", "media_io_kwargs")
"""Parameters of vLLM that would change the tokens."""


def parse_tokenize(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body with a ``prompt`` or with ``messages``. Raises ``ApiError`` (400)."""
    fields = parse_object(body)
    for name in _NOT_THERE:
        if fields.value(name):
            raise unsupported(name, name, "tokens are those of the model's own template")
    model = parse_model(fields) or only_model(catalog)
    shown = fields.flag("return_token_strs")
    if fields.value("messages") is None:
        asked = _of_text(fields, shown)
    elif fields.value("prompt") is None:
        asked = _of_messages(fields, shown)
    else:
        raise invalid("there are prompt and messages: send one of them", "prompt")
    return Parsed(model, [asked], TokenizeReply(model, catalog, shown))


def _of_text(fields: Fields, shown: bool) -> Generate:
    prompt = fields.optional_text("prompt")
    if prompt is None:
        llama = "; content is llama.cpp's name for it" if fields.value("content") is not None else ""
        raise invalid(f"there is neither prompt, a string, nor messages{llama}", "prompt")
    special = fields.flag("add_special_tokens", default=True)
    question = Question("prompt", tokens=True, token_texts=shown, special_tokens=special)
    return Generate("", (), prompt=prompt, tokens_max=0, question=question)


def _of_messages(fields: Fields, shown: bool) -> Generate:
    if fields.flag("continue_final_message"):
        raise unsupported("continue_final_message", "continue_final_message", "no answer begins in this way")
    question = Question(
        tokens=True,
        token_texts=shown,
        special_tokens=fields.flag("add_special_tokens"),
        generation_prompt=fields.flag("add_generation_prompt", default=True),
    )
    return parse_conversation(fields, question)


def parse_detokenize(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body with ``tokens``. Raises ``ApiError`` (400)."""
    fields = parse_object(body)
    model = parse_model(fields) or only_model(catalog)
    tokens = fields.value("tokens")
    if not isinstance(tokens, list):
        raise invalid("tokens must be a list of token ids", "tokens")
    for index, token in enumerate(tokens):
        if type(token) is not int or not 0 <= token < TOKEN_IDS:
            raise invalid(f"tokens[{index}] is no token id", f"tokens[{index}]")
    asked = Generate(
        "", (), prompt_tokens=tuple(tokens), echo=True, tokens_max=0, question=Question("tokens")
    )
    return Parsed(model, [asked], DetokenizeReply())


class TokenizeReply:
    """Writes the number of tokens, and the tokens, as vLLM does."""

    def __init__(self, model: str, catalog: Catalog, shown: bool) -> None:
        self._model = model
        self._catalog = catalog
        self._shown = shown
        self._count = 0
        self._tokens: tuple[int, ...] = ()
        self._texts: tuple[str, ...] = ()

    def add(self, pieces: Sequence[Piece]) -> None:
        for _, answer in pieces:
            if isinstance(answer, Accepted):
                self._tokens, self._texts = answer.prompt_tokens, answer.token_texts
            elif isinstance(answer, Finished):
                self._count = answer.prompt_tokens

    def body(self) -> bytes:
        route = self._catalog.find(self._model)  # knows the context by now, because a group has answered
        return dumps(
            {
                "count": self._count,
                "max_model_len": (route.context or None) if route is not None else None,
                "tokens": self._tokens,
                "token_strs": self._texts if self._shown else None,
            }
        )


class DetokenizeReply:
    """Writes the text of tokens as vLLM does."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, pieces: Sequence[Piece]) -> None:
        for _, answer in pieces:
            if isinstance(answer, Accepted):
                self._text = answer.text

    def body(self) -> bytes:
        return dumps({"prompt": self._text})
