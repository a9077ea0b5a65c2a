"""``POST /v1/responses``: a conversation in as items, the next items out. Pure but for ``sources``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.openai.model_list import only_model
from reconciler.gateway.dialects.openai.shape import dumps
from reconciler.gateway.dialects.replaced import dropped_headers
from reconciler.gateway.errors import ApiError
from reconciler.gateway.events import Piece
from reconciler.wire.generation import Finished

from .output import Output
from .request import ResponseRequest, parse_response


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the answer. Raises ``ApiError`` (400)."""
    request = parse_response(body, sources.new_seed())
    model = request.model or only_model(catalog)
    shape = ResponseStream if request.stream else ResponseReply
    headers = dropped_headers(request.tools.dropped)
    return Parsed(model, (request.generate,), shape(request, model, sources), request.session, headers)


class _Response:
    """The object ``response``: the whole answer, or a field of the first and last events of a stream."""

    def __init__(self, request: ResponseRequest, model: str, sources: Sources) -> None:
        self._sources = sources
        self.output = Output(request, sources.new_id)
        self._fields = {
            "id": "resp_" + sources.new_id(),
            "object": "response",
            "created_at": int(sources.now()),
            "background": False,
            "model": model,
            "previous_response_id": None,
            "service_tier": "default",
            "store": False,
            **request.repeated,
        }

    def open(self) -> Mapping[str, Any]:
        """Return it while no item is being written."""
        return self._shaped("in_progress", output=self.output.items)

    def ended(self) -> Mapping[str, Any]:
        """Return it at its end."""
        finished = self.output.finished
        assert finished is not None
        usage = self._usage(finished)
        if finished.reason == "length":
            cut = {"reason": "max_output_tokens"}
            return self._shaped("incomplete", incomplete_details=cut, output=self.output.items, usage=usage)
        at = int(self._sources.now())
        return self._shaped("completed", completed_at=at, output=self.output.items, usage=usage)

    def failed(self, error: ApiError) -> Mapping[str, Any]:
        """Return it after an error."""
        shown = {"code": _code(error), "message": error.text}
        return self._shaped("failed", error=shown, output=self.output.items)

    def _shaped(self, status: str, **fields: Any) -> Mapping[str, Any]:
        nothing = {"error": None, "incomplete_details": None, "completed_at": None}
        return {**self._fields, "status": status, **nothing, **fields}

    def _usage(self, finished: Finished) -> Mapping[str, Any]:
        return {
            "input_tokens": finished.prompt_tokens,
            "input_tokens_details": {"cached_tokens": finished.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": finished.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": self.output.reasoning_tokens},
            "total_tokens": finished.prompt_tokens + finished.completion_tokens,
        }


def _code(error: ApiError) -> str:
    """Return one of the codes that OpenAI's objects have, or that of a prompt that is too long, which Codex looks for."""
    if error.code == "context_length_exceeded":
        return error.code
    if error.status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if error.status in (400, 422) else "server_error"


class ResponseReply:
    """Writes the answer as one JSON object."""

    def __init__(self, request: ResponseRequest, model: str, sources: Sources) -> None:
        self._response = _Response(request, model, sources)

    def add(self, pieces: Sequence[Piece]) -> None:
        for _, answer in pieces:
            for _ in self._response.output.take(answer):
                continue

    def body(self) -> bytes:
        return dumps(self._response.ended())


class ResponseStream:
    """Writes the answer as server-sent events, each with its type and number."""

    content_type = b"text/event-stream; charset=utf-8"

    def __init__(self, request: ResponseRequest, model: str, sources: Sources) -> None:
        self._response = _Response(request, model, sources)
        self._number = 0

    def encode(self, pieces: Sequence[Piece]) -> bytes:
        """The first call announces the answer."""
        parts = [] if self._number else self._opening()
        for _, answer in pieces:
            parts.extend(self._event(*event) for event in self._response.output.take(answer))
        if pieces and self._response.output.finished is not None:
            parts.append(self._last(self._response.ended()))
        return b"".join(parts)

    def keep_alive(self) -> bytes:
        """Return a delta without text for the unfinished item, or else the event that the answer is in progress.
        Codex counts only events and waits five minutes for one (codex-rs, ``stream_idle_timeout_ms``). A long prompt
        takes longer."""
        nothing = self._response.output.nothing()
        return self._event(*(nothing or ("response.in_progress", {"response": self._response.open()})))

    def error(self, error: ApiError) -> bytes:
        opening = [] if self._number else self._opening()
        return b"".join([*opening, self._last(self._response.failed(error))])

    def _opening(self) -> list[bytes]:
        response = self._response.open()
        return [
            self._event(f"response.{state}", {"response": response}) for state in ("created", "in_progress")
        ]

    def _last(self, response: Mapping[str, Any]) -> bytes:
        return self._event(f"response.{response['status']}", {"response": response})

    def _event(self, kind: str, fields: Mapping[str, Any]) -> bytes:
        number, self._number = self._number, self._number + 1
        data = dumps({"type": kind, "sequence_number": number, **fields})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)
