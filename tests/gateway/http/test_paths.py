"""A dialect is a row of a table: its paths, and the errors of its clients. Nothing else knows of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from reconciler.gateway.dialects.dialect import Catalog, Dialect, Lookup, RenderedError
from reconciler.gateway.dialects.table import DEFAULT, DIALECTS
from reconciler.gateway.errors import ApiError, foreign_page
from reconciler.gateway.http.paths import Endpoint, Paths
from reconciler.gateway.http.refusals import ErrorPages


def answer(catalog: Catalog, parameters: Mapping[str, str]) -> bytes:
    return orjson.dumps(sorted(catalog.names()))


def render_error(error: ApiError, request_id: str = "") -> RenderedError:
    return RenderedError(error.status + 100, orjson.dumps({"oops": error.code}), ((b"x-mood", b"sad"),))


OTHER = Dialect(
    "Other",
    (
        Lookup("GET", "/api/tags", answer),
        Lookup("DELETE", "/api/tags", answer),
        Lookup("GET", "/api/{name:path}", answer),
    ),
    render_error,
)


def endpoints(*dialects: Dialect) -> Iterator[Endpoint]:
    for dialect in dialects:
        for row in dialect.paths:
            yield Endpoint(row.method, row.path, answer, dialect)


@pytest.fixture
def paths() -> Paths:
    return Paths([*endpoints(*DIALECTS), *endpoints(OTHER)], DEFAULT)


def request(method: str, path: str) -> Request:
    headers = [(b"host", b"x")]
    return Request({"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""})


def test_no_path_stands_in_two_rows() -> None:
    rows = [(row.method, row.path) for dialect in DIALECTS for row in dialect.paths]
    assert len(set(rows)) == len(rows)


def test_a_path_belongs_to_the_dialect_that_names_it_and_others_to_the_first(paths: Paths) -> None:
    assert paths.dialect("/api/tags") is OTHER
    assert paths.dialect("/api/a/b") is OTHER
    assert paths.dialect("/v1/models/a/b") is DEFAULT
    assert paths.dialect("/nothing") is DEFAULT


def test_a_path_that_is_none_belongs_to_the_dialect_of_what_it_is_below(paths: Paths) -> None:
    assert paths.dialect("/v1/messages/batches").name == "Anthropic"
    assert paths.dialect("/v1/messages/").name == "Anthropic"
    assert paths.dialect("/v1/messagesx") is DEFAULT


def test_a_path_takes_the_methods_of_its_rows(paths: Paths) -> None:
    assert paths.methods("/api/tags") == ["DELETE", "GET", "HEAD"]
    assert paths.methods("/v1/chat/completions") == ["POST"]
    assert paths.methods("/nothing") == []


def test_an_unknown_path_is_answered_with_those_that_there_are(paths: Paths) -> None:
    response = ErrorPages(paths).refuse(request("GET", "/v2"), HTTPException(404))
    error = orjson.loads(response.body)["error"]
    assert (response.status_code, error["code"]) == (404, "unknown_url")
    there = [f"{each.method} {each.path}" for dialect in (*DIALECTS, OTHER) for each in dialect.paths]
    listed = ", ".join(name for name in there if "{" not in name)
    assert error["message"] == f"no such endpoint: /v2; there are {listed}"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("/chat/completions", "use POST /v1/chat/completions; the base URL of clients is http://x/v1"),
        ("/v1/v1/chat/completions", "use POST /v1/chat/completions; the base URL of clients is http://x/v1"),
        ("/v1/chat/completions/", "use POST /v1/chat/completions; the base URL of clients is http://x/v1"),
        ("//v1//models", "use GET /v1/models; the base URL of clients is http://x/v1"),
        ("/openai/deployments/llama/chat/completions", "use POST /v1/chat/completions; the base URL of clients is http://x/v1"),
        ("/v1/tokenize", "use POST /tokenize; the base URL of clients is http://x"),
    ],
)  # fmt: skip
def test_a_wrong_base_url_is_answered_with_the_right_one(paths: Paths, asked: str, told: str) -> None:
    assert paths.advice(asked, "http://x") == f"no such endpoint: {asked}; {told}"


@pytest.mark.parametrize("path", ["/v1/v1", "/x/chat", "/xtokenize", "/completions/x", "/", ""])
def test_a_path_that_only_looks_like_one_is_answered_with_all(paths: Paths, path: str) -> None:
    assert paths.advice(path, "http://x").startswith(f"no such endpoint: {path}; there are GET /v1/models")


def test_what_others_have_is_named_with_what_to_use_instead(paths: Paths) -> None:
    assert paths.advice("/props", "http://x").startswith(
        "/props, of llama.cpp, is not served here: `GET /v1/models`"
    )
    assert paths.advice("/v1/threads/thread_1/runs", "").startswith(
        "/v1/threads/thread_1/runs, of OpenAI, is not "
    )
    assert "of OpenAI, is not" in paths.advice("/v1/threads/thread_1/messages", "http://x")
    # below LM Studio's own paths, which has OpenAI's as well
    assert paths.advice("/api/v0/chat/completions", "http://x").endswith(
        "the base URL of clients is http://x/v1"
    )


def test_a_wrong_method_is_answered_with_the_right_ones(paths: Paths) -> None:
    response = ErrorPages(paths).refuse(request("GET", "/v1/completions"), HTTPException(405))
    error = orjson.loads(response.body)["error"]
    assert (response.status_code, error["code"]) == (405, "method_not_allowed")
    assert error["message"] == "/v1/completions does not take GET; it takes POST"
    assert response.headers["allow"] == "POST"


def test_each_dialect_writes_the_errors_of_its_own_paths(paths: Paths) -> None:
    pages = ErrorPages(paths)
    refused = pages.refuse(request("PUT", "/api/tags"), HTTPException(405))
    failed = pages.fail(request("GET", "/api/tags"))
    assert (refused.status_code, refused.body) == (505, b'{"oops":"method_not_allowed"}')
    assert (failed.status_code, failed.body) == (600, b'{"oops":"internal_error"}')
    assert refused.headers["x-mood"] == "sad"
    assert refused.headers["content-type"] == "application/json"
    assert DEFAULT.render_error(foreign_page("x")).status == 403
