"""Paths of other servers and services that clients ask for and that do not exist here, with their owners and what to
use instead. ``docs/endpoint.md`` has the same table. Pure.

The paths are from the references of Ollama (``docs/api.md``), LM Studio (REST API v0 and v1), llama.cpp
(``tools/server/README.md``), TGI (``docs/openapi.json``), vLLM (``entrypoints/``), SGLang, OpenAI and Anthropic.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Elsewhere:
    """Paths with the same answer, and all paths below them."""

    whose: str
    paths: tuple[str, ...]
    instead: str


ROWS: tuple[Elsewhere, ...] = (
    Elsewhere("Ollama", ("/api/tags", "/api/ps"), "`GET /v1/models` lists the models"),
    Elsewhere("Ollama", ("/api/show",), "`GET /v1/models/NAME` has the context of a model"),
    Elsewhere(
        "Ollama", ("/api/version",), "`GET /version` has the version of this endpoint, which is no Ollama"
    ),
    Elsewhere("Ollama", ("/api/chat",), "use `POST /v1/chat/completions`"),
    Elsewhere("Ollama", ("/api/generate",), "use `POST /v1/completions`"),
    Elsewhere(
        "Ollama",
        ("/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete", "/api/blobs"),
        "models are declared, as Model and ModelDeployment",
    ),
    Elsewhere(
        "LM Studio",
        ("/api/v0", "/api/v1"),
        "use `GET /v1/models`, `POST /v1/chat/completions` or `POST /v1/completions`",
    ),
    Elsewhere(
        "llama.cpp", ("/props", "/slots"), "`GET /v1/models` has the context, `GET /metrics` what runs"
    ),
    Elsewhere("Ollama", ("/api/embed", "/api/embeddings"), "use `POST /v1/embeddings`"),
    Elsewhere("llama.cpp", ("/embedding",), "use `POST /v1/embeddings`"),
    Elsewhere("llama.cpp", ("/completion",), "use `POST /v1/completions`"),
    Elsewhere(
        "llama.cpp", ("/apply-template",), "`POST /tokenize` with `messages` has the tokens of a prompt"
    ),
    Elsewhere("llama.cpp", ("/infill",), "no model is asked to fill in a middle"),
    Elsewhere("llama.cpp", ("/lora-adapters",), "there are no adapters beside a model"),
    Elsewhere("TGI", ("/generate", "/generate_stream"), "use `POST /v1/completions`"),
    Elsewhere("TGI", ("/info",), "`GET /v1/models` has the context, `GET /version` the version"),
    Elsewhere("vLLM", ("/load", "/server_info", "/tokenizer_info"), "`GET /metrics` has what runs and waits"),
    Elsewhere(
        "vLLM", ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"), "there are no adapters beside a model"
    ),
    Elsewhere(
        "vLLM",
        ("/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score", "/classify", "/pooling", "/reranking"),
        "models here neither rank, score nor classify",
    ),
    Elsewhere(
        "vLLM",
        ("/sleep", "/wake_up", "/is_sleeping", "/reset_prefix_cache", "/collective_rpc", "/invocations"),
        "what a model does is declared in its ModelDeployment",
    ),
    Elsewhere(
        "SGLang",
        ("/get_model_info", "/model_info", "/get_server_info", "/flush_cache", "/encode"),
        "`GET /v1/models` has the context, `GET /metrics` what runs and waits",
    ),
    Elsewhere("OpenAI", ("/v1/audio", "/v1/realtime"), "models here take and write text alone"),
    Elsewhere("OpenAI", ("/v1/images", "/v1/videos"), "models here take and write text alone"),
    Elsewhere("OpenAI", ("/v1/moderations",), "no model here judges content"),
    Elsewhere(
        "OpenAI",
        ("/v1/files", "/v1/uploads", "/v1/vector_stores", "/v1/containers", "/v1/conversations"),
        "nothing of a client is kept: send it with each request",
    ),
    Elsewhere("OpenAI", ("/v1/batches",), "send the requests one by one, several at a time"),
    Elsewhere(
        "OpenAI",
        ("/v1/assistants", "/v1/threads"),
        "nothing of a client is kept: use `POST /v1/chat/completions` with the whole conversation",
    ),
    Elsewhere("OpenAI", ("/v1/fine_tuning", "/v1/evals"), "models are served as they are"),
    Elsewhere("OpenAI", ("/v1/edits", "/v1/engines"), "use `POST /v1/chat/completions`"),
    Elsewhere("Anthropic", ("/v1/messages/batches",), "send the requests one by one, several at a time"),
    Elsewhere("Anthropic", ("/v1/complete",), "use `POST /v1/completions`"),
)
"""No path may stand in two rows, and no path of this endpoint in any."""


def found(path: str) -> Elsewhere | None:
    """Return the row of a path, or of a path above it."""
    rows = [(name, row) for row in ROWS for name in row.paths if path == name or path.startswith(name + "/")]
    return max(rows, key=lambda each: len(each[0]))[1] if rows else None


def is_named(path: str) -> bool:
    """Return whether a row has the path itself."""
    return any(path in row.paths for row in ROWS)
