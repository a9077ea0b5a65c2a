"""Every API surface that the gateway offers. A new one is a folder next to ``openai`` and a row here."""

from __future__ import annotations

from .anthropic import count_tokens, messages
from .anthropic import errors as anthropic_errors
from .dialect import Dialect, Generation, Lookup
from .openai import chat, completions, embeddings, errors, model_list
from .rate_limits import anthropic_headers
from .responses import create, input_tokens, stored
from .responses import errors as responses_errors
from .vllm import tokens, version

DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        "OpenAI",
        (
            Lookup("GET", "/v1/models", model_list.all_models),
            Lookup("GET", "/v1/models/{name:path}", model_list.one_model),
            Generation("POST", "/v1/chat/completions", chat.parse),
            Generation("POST", "/v1/completions", completions.parse),
            Generation("POST", "/v1/embeddings", embeddings.parse),
        ),
        errors.render_error,
        base="/v1",
    ),
    Dialect(
        "vLLM",
        (
            Lookup("GET", "/version", version.version),
            Generation("POST", "/tokenize", tokens.parse_tokenize),
            Generation("POST", "/detokenize", tokens.parse_detokenize),
        ),
        errors.render_error,
    ),
    Dialect(
        "OpenAI's responses",
        (
            Generation("POST", "/v1/responses", create.parse),
            Generation("POST", "/v1/responses/input_tokens", input_tokens.parse),
            Lookup("GET", "/v1/responses/{name:path}", stored.not_stored),
            Lookup("DELETE", "/v1/responses/{name:path}", stored.not_stored),
            Lookup("POST", "/v1/responses/{name}/cancel", stored.not_stored),
        ),
        responses_errors.render_error,
        base="/v1",
    ),
    Dialect(
        "Anthropic",
        (
            Generation("POST", "/v1/messages", messages.parse),
            Generation("POST", "/v1/messages/count_tokens", count_tokens.parse),
        ),
        anthropic_errors.render_error,
        id_header="request-id",
        left=anthropic_headers,
    ),
)
"""No path may stand in two rows."""

DEFAULT = DIALECTS[0]
"""Writes the errors for paths in no row."""
