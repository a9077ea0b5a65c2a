"""An API surface of another shape than OpenAI's is served as soon as it has a row in the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson
import pytest

from reconciler.gateway import app
from reconciler.gateway.dialects.dialect import (
    Catalog,
    Dialect,
    Generation,
    Lookup,
    Parsed,
    RenderedError,
    Sources,
)
from reconciler.gateway.dialects.table import DIALECTS
from reconciler.gateway.errors import ApiError, invalid
from reconciler.gateway.events import Piece
from reconciler.wire.generation import Delta, Generate
from tests.gateway.conftest import Start
from tests.gateway.rank_double import silent, story


class Lines:
    """One line for each token, and no more."""

    content_type = b"application/x-lines"

    def keep_alive(self) -> bytes:
        return b"\n"

    def encode(self, pieces: Sequence[Piece]) -> bytes:
        return b"".join(answer.text.encode() + b"\n" for _, answer in pieces if isinstance(answer, Delta))

    def error(self, error: ApiError) -> bytes:
        return b"oops\n"


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    if not body:
        raise invalid("empty", None)
    return Parsed(body.decode(), [Generate("", (), prompt="once upon a time")], Lines())


def names(catalog: Catalog, parameters: Mapping[str, str]) -> bytes:
    return orjson.dumps(sorted(catalog.names()))


def render_error(error: ApiError, request_id: str = "") -> RenderedError:
    return RenderedError(418, orjson.dumps({"oops": error.text, "for": request_id}))


LINES = Dialect(
    "Lines",
    (Generation("POST", "/lines", parse), Lookup("GET", "/names", names)),
    render_error,
    id_header="x-line",
)


@pytest.fixture(autouse=True)
def _a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DIALECTS", (*DIALECTS, LINES))


async def test_its_answers_are_written_by_the_dialect(start: Start) -> None:
    cluster = await start(story(2))
    async with cluster.http.post(cluster.url("/lines"), data=b"llama") as answer:
        assert answer.content_type == "application/x-lines"
        assert (await answer.read()).split() == [b"w0", b"w1"]
    async with cluster.http.get(cluster.url("/names")) as answer:
        assert await answer.json() == ["gpt-4o", "llama"]


async def test_its_errors_are_written_by_the_dialect(start: Start) -> None:
    cluster = await start(silent)
    for method, body, text in (
        ("POST", b"", "empty"),
        ("POST", b"nope", "the model 'nope' does not exist; GET /v1/models lists those that do"),
        ("PUT", b"llama", "/lines does not take PUT; it takes POST"),
    ):
        headers = {"x-request-id": "mine"}
        async with cluster.http.request(method, cluster.url("/lines"), data=body, headers=headers) as answer:
            assert (answer.status, await answer.json()) == (418, {"oops": text, "for": "mine"})


async def test_its_answers_have_the_id_of_the_request_by_its_own_name_too(start: Start) -> None:
    cluster = await start(story(1))
    for path, body, known in (
        ("/lines", b"llama", True),
        ("/lines/nowhere", b"", True),
        ("/health", b"", False),
    ):
        async with cluster.http.post(cluster.url(path), data=body) as answer:
            assert answer.headers["x-request-id"]
            assert (answer.headers.get("x-line") == answer.headers["x-request-id"]) is known
