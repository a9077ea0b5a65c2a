"""Prompts as other processes see them: a hash and a size. Pure."""

from __future__ import annotations

import hashlib

import orjson

from reconciler.wire.generation import Generate

from .suspects import Prompt


def digest(model: str, generate: Generate) -> str:
    """Return the SHA-256, in hexadecimal, of the model's name and all input of the rank's template.

    Sampling is not part of it: a client that tries once more with another seed sends the same prompt. A question about
    a prompt is another prompt: an answer to it does not show that the model can read this one.
    """
    given: tuple[object, ...] = (
        model,
        generate.messages,
        generate.tools,
        generate.prompt,
        generate.prompt_tokens,
    )
    if generate.question is not None:
        given = (*given, "question", generate.texts)
    return hashlib.sha256(orjson.dumps(given, option=orjson.OPT_SORT_KEYS)).hexdigest()


def describe(model: str, generate: Generate, request: str, tokens: int) -> Prompt:
    """Return a prompt as other processes see it. ``tokens`` is its length, 0 if no rank has reported it."""
    size = len(orjson.dumps((generate.messages, generate.prompt, generate.prompt_tokens, generate.texts)))
    parts = [
        (len(generate.messages), "message"),
        (size, "byte"),
        (tokens or len(generate.prompt_tokens or ()), "token"),
        (len(generate.tools), "tool"),
    ]
    shape = ", ".join(f"{count:,} {what}{'s' if count > 1 else ''}" for count, what in parts if count)
    return Prompt(digest(model, generate), request, shape)
