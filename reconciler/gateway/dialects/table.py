"""Every API surface that the gateway offers. A new one is a folder beside ``openai`` and a row here."""

from __future__ import annotations

from .anthropic import errors as anthropic_errors
from .anthropic import messages
from .dialect import Dialect, Generation, Lookup
from .openai import chat, completions, errors, model_list
from .rate_limits import anthropic_headers
from .responses import create, stored
from .responses import errors as responses_errors

DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        "OpenAI",
        (
            Lookup("GET", "/v1/models", model_list.all_models),
            Lookup("GET", "/v1/models/{name:path}", model_list.one_model),
            Generation("POST", "/v1/chat/completions", chat.parse),
            Generation("POST", "/v1/completions", completions.parse),
        ),
        errors.render_error,
    ),
    Dialect(
        "OpenAI's responses",
        (
            Generation("POST", "/v1/responses", create.parse),
            Lookup("GET", "/v1/responses/{name:path}", stored.not_stored),
            Lookup("DELETE", "/v1/responses/{name:path}", stored.not_stored),
            Lookup("POST", "/v1/responses/{name}/cancel", stored.not_stored),
        ),
        responses_errors.render_error,
    ),
    Dialect(
        "Anthropic",
        (Generation("POST", "/v1/messages", messages.parse),),
        anthropic_errors.render_error,
        id_header="request-id",
        left=anthropic_headers,
    ),
)
"""No path may stand in two rows."""

DEFAULT = DIALECTS[0]
"""Writes the errors of requests whose path is in no row."""
