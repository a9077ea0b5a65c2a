"""Holds an answer to its form: checks that the request does not contradict itself, and makes the answer's matcher."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.runner.forms.answers import Asked
from reconciler.runner.forms.matching import Forms, Matcher, Unfit
from reconciler.runner.forms.schemas import Inexpressible
from reconciler.runner.model.adapter import PROMPT_END_TOKENS, Tokenizer
from reconciler.wire.generation import Generate

from .unanswerable import invalid


def asked_of(generate: Generate, prompt: Sequence[int], tokenizer: Tokenizer) -> Asked | None:
    """Return the form of the answer and its context; None if the answer is free. Raises ``Unanswerable``."""
    form = generate.form
    if form.free:
        return None
    _check_ending(generate)
    if form.calls_required and not generate.tools:
        raise invalid("a call is required, but there are no tools to call", "tool_choice")
    literal = generate.prompt is not None or generate.prompt_tokens is not None
    tail = "" if literal else tokenizer.text(prompt[-PROMPT_END_TOKENS:])
    return Asked(form, generate.tools, generate.tool_calls_max != 1, tail, literal)


def _check_ending(generate: Generate) -> None:
    """Refuse fields that would end an answer before it has its form, or would keep it from ending then."""
    ending = generate.ending
    for contradicts, name in (
        (bool(generate.stop), "stop"),
        (ending.ignore_end, "ignore_eos"),
        (ending.tokens_min > 0, "min_tokens"),
        (bool(ending.stop_tokens), "stop_token_ids"),
    ):
        if contradicts:
            raise invalid(
                f"{name} contradicts the form that is asked for, which says where the answer ends", name
            )


def hold(asked: Asked, resume: Sequence[int], forms: Forms) -> Matcher:
    """Return the matcher of an answer that already has the tokens ``resume``. Raises ``Unanswerable``. May take a
    second."""
    try:
        return forms.begin(asked, resume)
    except Inexpressible as error:
        raise invalid(error.why, error.path) from None
    except Unfit as error:
        raise invalid(str(error), asked.form.schema_path) from None
