"""The chat passes the gateway's answer on as it comes, in the name of whoever asks, and lets go when the browser does."""

from __future__ import annotations

import contextlib
import html
import re
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse

from reconciler.console.chat.routes import BODY_BYTES_MAX, CHATS_MAX
from reconciler.wire.objects import ApiKey
from tests.certificates import self_signed
from tests.console.doors import key, secret
from tests.ports import free_port

from .gateway_double import (
    END,
    GROUP,
    SECONDS_MAX,
    GatewayDouble,
    chunk,
    console_at,
    gateway_double,
    said,
    whole,
)

HELLO: Any = {"messages": [{"role": "user", "content": "Hello"}]}


@contextlib.contextmanager
def console_of(endpoint: str | None, *keys: ApiKey, **spec: Any) -> Iterator[httpx2.Client]:
    """A client of a console whose controller names this gateway. ``keys``: those that are in force; ``spec``: further fields of
    the Gateway's."""
    with (
        console_at(endpoint, *keys, **spec) as address,
        httpx2.Client(base_url=address, trust_env=False, timeout=SECONDS_MAX) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[GatewayDouble, httpx2.Client]]:
    with (
        gateway_double() as double,
        console_of(double.url) as client,
    ):
        yield double, client


@pytest.fixture
def gateway(both: tuple[GatewayDouble, httpx2.Client]) -> GatewayDouble:
    double, _ = both
    double.reset()
    return double


@pytest.fixture
def console(both: tuple[GatewayDouble, httpx2.Client]) -> httpx2.Client:
    return both[1]


async def short(_: GatewayDouble) -> AsyncIterator[bytes]:
    yield chunk(group=GROUP)
    yield said("Hello")
    yield END


async def endless(gateway: GatewayDouble) -> AsyncIterator[bytes]:
    yield said("Hello")
    await gateway.until_go()
    yield said(" again")
    yield END


def test_an_answer_is_passed_on_as_the_gateway_writes_it(
    console: httpx2.Client, gateway: GatewayDouble
) -> None:
    gateway.stream = short
    answer = console.post("/chat/tiny/answer", json={**HELLO, "temperature": 0.5})
    assert answer.content == chunk(group=GROUP) + said("Hello") + END
    assert answer.headers["content-type"].startswith("text/event-stream")
    (asked,) = gateway.asked
    assert asked == {
        **HELLO,
        "temperature": 0.5,
        "model": "tiny",
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_groups": True,
    }


def test_each_part_comes_at_once(console: httpx2.Client, gateway: GatewayDouble) -> None:
    gateway.stream = endless
    with console.stream("POST", "/chat/tiny/answer", json=HELLO) as answer:
        parts = answer.iter_raw()
        assert next(parts) == said("Hello")
        gateway.go.set()
        assert b"".join(parts) == said(" again") + END


def test_the_gateway_is_let_go_when_the_browser_goes(console: httpx2.Client, gateway: GatewayDouble) -> None:
    gateway.stream = endless
    with console.stream("POST", "/chat/tiny/answer", json=HELLO) as answer:
        assert next(answer.iter_raw()) == said("Hello")
    assert gateway.left.wait(SECONDS_MAX)


def test_browsers_that_go_at_once_leave_nothing_open(console: httpx2.Client, gateway: GatewayDouble) -> None:
    gateway.stream = endless
    url = console.base_url
    body = b'{"messages": []}'
    head = (
        f"POST /chat/tiny/answer HTTP/1.1\r\nhost: {url.host}:{url.port}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    for number in range(CHATS_MAX + 10):
        with socket.create_connection((url.host, url.port or 80)) as browser:
            browser.sendall(head.encode() + body)
            if number % 2:
                browser.recv(1)
    gateway.stream = short
    answers = (console.post("/chat/tiny/answer", json=HELLO) for _ in range(100))
    assert any(answer.status_code == 200 for answer in answers)


def test_an_answer_is_asked_for_with_the_secret_of_whoever_asks(gateway: GatewayDouble) -> None:
    gateway.stream = short
    alice = key("alice", 1, "view")
    with console_of(gateway.url, alice) as console:
        known = {"authorization": f"Bearer {secret(1)}", "cookie": "other=1"}
        assert console.post("/chat/tiny/answer", json=HELLO, headers=known).status_code == 200
        for wrong in ({}, {"authorization": f"Bearer {secret(2)}"}):
            assert console.post("/chat/tiny/answer", json=HELLO, headers=wrong).status_code == 401
    (headers,) = gateway.headers
    assert headers["authorization"] == f"Bearer {secret(1)}"
    assert "cookie" not in headers


def test_without_keys_no_secret_is_sent(console: httpx2.Client, gateway: GatewayDouble) -> None:
    gateway.stream = short
    console.post("/chat/tiny/answer", json=HELLO, headers={"authorization": "Bearer something"})
    assert "authorization" not in gateway.headers[0]


def test_a_refusal_of_the_gateway_keeps_its_status_and_text(
    console: httpx2.Client, gateway: GatewayDouble
) -> None:
    gateway.reply = JSONResponse({"error": {"message": "the prompt is too long"}}, 400)
    answer = console.post("/chat/tiny/answer", json=HELLO)
    assert (answer.status_code, answer.json()) == (400, {"error": {"message": "the prompt is too long"}})


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content-type": "text/plain"}, b"{}", 415),
        ({"content-type": "application/x-www-form-urlencoded"}, b"{}", 415),
        ({"content-type": "application/json"}, b"[", 400),
        ({"content-type": "application/json"}, b"[]", 400),
        ({"content-type": "application/json"}, b'{"messages": [], "model": "other"}', 400),
        ({"content-type": "application/json", "origin": "https://evil.example"}, b"{}", 403),
        ({"content-type": "application/json", "sec-fetch-site": "cross-site"}, b"{}", 403),
        ({"content-type": "application/json", "host": "evil.example"}, b"{}", 403),
        ({"content-type": "application/json"}, b" " * (BODY_BYTES_MAX + 1), 400),
    ],
)
def test_what_no_page_of_the_console_sends_reaches_no_gateway(
    console: httpx2.Client, gateway: GatewayDouble, headers: dict[str, str], body: bytes, status: int
) -> None:
    assert console.post("/chat/tiny/answer", content=body, headers=headers).status_code == status
    assert gateway.asked == []


def test_a_gateway_that_is_away_is_said() -> None:
    with console_of(f"http://127.0.0.1:{free_port()}/v1") as console:
        answer = console.post("/chat/tiny/answer", json=HELLO)
    assert answer.status_code == 502
    assert "does not answer" in answer.json()["error"]["message"]
    with console_of(None) as console:
        assert "not listening" in console.post("/chat/tiny/answer", json=HELLO).json()["error"]["message"]


def test_a_gateway_that_breaks_off_ends_the_stream_with_an_error(
    console: httpx2.Client, gateway: GatewayDouble
) -> None:
    async def broken(_: GatewayDouble) -> AsyncIterator[bytes]:
        yield said("Hello")
        raise ConnectionResetError

    gateway.stream = broken
    text = console.post("/chat/tiny/answer", json=HELLO).text
    assert text.startswith(said("Hello").decode())
    assert "broken off" in text


def test_with_tls_the_gateways_own_certificate_is_trusted_and_no_other(tmp_path: Path) -> None:
    own, other = (tmp_path / "own", tmp_path / "other")
    for folder in (own, other):
        folder.mkdir()
        self_signed(folder, addresses=("192.0.2.1",))
    with gateway_double(ssl_certfile=own / "certificate.pem") as gateway:
        gateway.stream = short
        for folder, status in ((own, 200), (other, 502)):
            tls = {"certificate": str(folder / "certificate.pem"), "key": ""}
            with console_of(gateway.url, tls=tls) as console:
                assert console.post("/chat/tiny/answer", json=HELLO).status_code == status


# --- without scripts ---------------------------------------------------------------------------------


def test_a_form_is_answered_with_the_whole_conversation(
    console: httpx2.Client, gateway: GatewayDouble
) -> None:
    gateway.reply = whole("It <b>reconciles</b>.", reasoning_content="Let me see.")
    page = console.post(
        "/chat/large", data={"message": "What is it?", "system": "Be brief.", "max_tokens": "9"}
    )
    assert gateway.asked[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is it?"},
    ]
    assert gateway.asked[0]["max_tokens"] == 9
    assert "It &lt;b&gt;reconciles&lt;/b&gt;." in page.text
    assert "Let me see." in page.text
    assert "epoch 7 on studio-1..4" in page.text
    (kept,) = re.findall(r'name="said" value="([^"]*)"', page.text)
    console.post("/chat/large", data={"message": "Really?", "said": html.unescape(kept)})
    again = gateway.asked[1]["messages"]
    assert [each["content"] for each in again] == ["What is it?", "It <b>reconciles</b>.", "Really?"]
    assert "groups" not in again[1]


def test_a_form_that_cannot_be_answered_says_why(console: httpx2.Client, gateway: GatewayDouble) -> None:
    gateway.reply = JSONResponse({"error": {"message": "large is being loaded"}}, 503)
    assert "large is being loaded" in console.post("/chat/large", data={"message": "Hi"}).text
    assert "tools is not JSON" in console.post("/chat/large", data={"message": "Hi", "tools": "x"}).text
    assert "there is no message" in console.post("/chat/large", data={"message": " "}).text
