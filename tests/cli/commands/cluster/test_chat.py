"""`chat` asks the endpoint as any client would, and prints the answer as it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.commands.cluster import chat
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller

from .endpoint import Endpoint, endpoint_of_one_model


def said(*words: str) -> list[Any]:
    """The events of an answer."""
    first = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
    return [
        first,
        *({"choices": [{"delta": {"content": word}}]} for word in words),
        {"choices": [], "usage": {}},
    ]


@pytest.fixture
def endpoint(controller: Controller) -> Iterator[Endpoint]:
    with endpoint_of_one_model() as server:
        server.says = said("Be", "cause.")
        item = bodies.gateway()
        item["status"]["endpoint"] = server.url
        controller.answers["get"] = {"items": [item]}
        yield server


def test_a_question_is_answered(cli: Cli, endpoint: Endpoint) -> None:
    done = cli("chat", "tiny", "Why", "so?")
    assert (done.code, done.out, done.err) == (0, "Because.\n", "")
    assert endpoint.requests == [
        (
            "/v1/chat/completions",
            {"model": "tiny", "messages": [{"role": "user", "content": "Why so?"}], "stream": True},
        )
    ]
    assert endpoint.keys == [None]


def test_standard_input_comes_behind_the_question(cli: Cli, endpoint: Endpoint) -> None:
    assert cli("chat", "tiny", "--system", "Be short.", "Review:", stdin="a change\n").code == 0
    assert endpoint.requests[0][1]["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Review:\n\na change\n"},
    ]


def test_an_answer_cannot_command_the_terminal(cli: Cli, endpoint: Endpoint) -> None:
    endpoint.says = said("a\x1b[2Jb", "\x07c\nd")
    assert cli("chat", "tiny", "Why?").out == "abc\nd\n"


def test_the_whole_answer_is_printed_as_json(cli: Cli, endpoint: Endpoint) -> None:
    done = cli("chat", "tiny", "Why?", "-o", "json")
    assert json.loads(done.out) == endpoint.answer[1]
    assert endpoint.requests[0][1]["stream"] is False


@pytest.mark.parametrize("given", ["file", "variable"])
def test_a_key_is_shown_to_the_gateway(
    given: str, cli: Cli, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("rk-1234 \r\n")
    if given == "variable":
        monkeypatch.setenv(chat.KEY_VARIABLE, "rk-1234")
    options = ["--key-file", str(tmp_path / "key")] if given == "file" else []
    assert cli("chat", "tiny", *options, "Why?").code == 0
    assert endpoint.keys == ["Bearer rk-1234"]


def test_a_refusal_is_told_in_the_words_of_the_endpoint(cli: Cli, endpoint: Endpoint) -> None:
    endpoint.answer = (404, {"error": {"message": "there is no model tinny"}})
    done = cli("chat", "tinny", "Why?")
    assert (done.code, done.out) == (1, "")
    assert "answered 404: there is no model tinny" in done.err


def test_an_answer_that_breaks_off_is_an_error_after_what_came(cli: Cli, endpoint: Endpoint) -> None:
    endpoint.says = [*said("Be"), {"error": {"message": "its group is gone"}}]
    done = cli("chat", "tiny", "Why?")
    assert (done.code, done.out) == (1, "Be")
    assert "its group is gone" in done.err


def test_without_a_question_nothing_is_asked(cli: Cli, endpoint: Endpoint) -> None:
    done = cli("chat", "tiny")
    assert (done.code, endpoint.requests) == (2, [])
    assert "there is no question" in done.err


def test_a_conversation_goes_on_with_what_was_said(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["Why?", "  ", "And then?"])

    def read(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", read)
    chat._converse(chat.Talk(endpoint.url, "tiny", "", trusting=True))
    assert endpoint.requests[1][1]["messages"] == [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "Because."},
        {"role": "user", "content": "And then?"},
    ]
    assert capsys.readouterr().out == "Because.\nBecause.\n\n"


def test_a_gateway_that_is_not_up_is_named(cli: Cli, controller: Controller) -> None:
    item = bodies.gateway()
    del item["status"]["endpoint"]
    controller.answers["get"] = {"items": [item]}
    done = cli("chat", "tiny", "Why?")
    assert done.code == 1
    assert "no gateway answers; there is main; see: reconciler get gateways" in done.err
