"""The question of `up --once`, asked of a real HTTP server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.cli.commands.cluster.question import ask_endpoint
from reconciler.errors import Invalid

from .endpoint import Endpoint, endpoint_of_one_model


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with endpoint_of_one_model() as server:
        yield server


def test_the_answers_text_is_returned(endpoint: Endpoint) -> None:
    assert ask_endpoint(endpoint.url, "tiny", "Why?") == "Because."
    ((path, body),) = endpoint.requests
    assert path == "/v1/chat/completions"
    assert (body["model"], body["messages"]) == ("tiny", [{"role": "user", "content": "Why?"}])


def test_a_proxy_of_the_environment_is_not_asked(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert ask_endpoint(endpoint.url, "tiny", "Why?") == "Because."


def test_the_endpoints_own_words_tell_why_there_is_no_answer(endpoint: Endpoint) -> None:
    endpoint.answer = (503, {"error": {"message": "no group is ready"}})
    with pytest.raises(Invalid, match="answered 503: no group is ready"):
        ask_endpoint(endpoint.url, "tiny", "Why?")


@pytest.mark.parametrize("answer", [(200, {}), (200, {"choices": []}), (500, ["?"])])
def test_an_answer_of_another_shape_is_none(endpoint: Endpoint, answer: tuple[int, Any]) -> None:
    endpoint.answer = answer
    with pytest.raises(Invalid, match="no usable answer"):
        ask_endpoint(endpoint.url, "tiny", "Why?")


def test_nobody_listening_is_said(endpoint: Endpoint) -> None:
    with pytest.raises(Invalid, match=r"no usable answer from .*: ConnectionRefusedError"):
        ask_endpoint("http://127.0.0.1:1/v1", "tiny", "Why?")
