"""Webhooks are spoken to with care: the URL stays secret, certificates are checked, no redirect is followed."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Invalid, ReconcilerError, Refused, Unreachable
from reconciler.outgoing import webhooks
from reconciler.outgoing.webhooks import Webhooks, body
from reconciler.resources import Webhook
from tests.certificates import self_signed
from tests.worlds import notifier

from .receiver import receiver


def webhook(**spec: Any) -> Webhook:
    return notifier(webhook=spec).spec.webhook


async def test_a_message_arrives_in_slacks_form() -> None:
    with receiver() as hook:
        await Webhooks({}).post(webhook(url=hook.url), 'rank 1 <a&b> was killed: "9"')
        assert hook.messages == [{"text": 'rank 1 &lt;a&amp;b&gt; was killed: "9"'}]
        assert hook.paths == ["/hook/s3cret"]
        assert hook.headers[0]["Content-Type"] == "application/json"
        assert hook.headers[0]["Host"] == f"127.0.0.1:{hook.port}"


@pytest.mark.parametrize("text", ["ä€", "line\nline", "x" * 100_000])
def test_a_body_is_ascii_json_whatever_the_text(text: str) -> None:
    assert json.loads(body(text).decode("ascii")) == {"text": text}


async def test_the_url_comes_from_the_environment_or_a_file_that_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "url"
    with receiver() as hook:
        await Webhooks({"HOOK": f" {hook.url}\n"}).post(webhook(urlFrom={"env": "HOOK"}), "one")
        by_file = webhook(urlFrom={"file": str(file)})
        with pytest.raises(Invalid, match=r"url cannot be read: No such file"):
            await Webhooks({}).post(by_file, "two")
        file.write_text(f"{hook.url}?a=b\n")
        await Webhooks({}).post(by_file, "three")
        assert hook.texts == ["one", "three"]
        assert hook.paths[-1] == "/hook/s3cret?a=b"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "the environment of `reconciler up` has no HOOK; set it, and restart `reconciler up`"),
        ("", "the environment of `reconciler up` has no HOOK; set it, and restart `reconciler up`"),
        ("https://exa mple.com/s3cret", "HOOK does not contain a URL"),
        ("https://example.com/s3cret\r\nX: y", "HOOK holds 2 lines; expected one line with the secret alone"),
        ("https://[::1/s3cret", "HOOK does not contain a URL"),
        ("https://example.com:99999/s3cret", "HOOK does not contain a URL"),
        (f"https://example.com/s3cret{'x' * 2048}", "HOOK does not contain a URL"),
        ("ftp://example.com/s3cret", "HOOK does not contain a URL such as https://hooks.example.com/…"),
        (
            "https://user:s3cret@example.com/",
            "HOOK does not contain a URL such as https://hooks.example.com/…",
        ),
        ("http://example.com/s3cret", "HOOK contains an http URL of another machine, .*; use https"),
    ],
)
async def test_a_url_that_cannot_be_used_is_refused_without_being_shown(
    value: str | None, message: str
) -> None:
    environment = {} if value is None else {"HOOK": value}
    with pytest.raises(Invalid, match=f"^{message}$") as refused:
        await Webhooks(environment).post(webhook(urlFrom={"env": "HOOK"}), "text")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("status", [204, 400, 404, 429, 500, 503])
async def test_anything_but_a_2xx_is_no_delivery(status: int) -> None:
    with receiver() as hook:
        hook.statuses = [status]
        sent = Webhooks({}).post(webhook(url=hook.url), "text")
        if status == 204:
            await sent
        else:
            with pytest.raises(Refused, match=f"^it answered with {status}$"):
                await sent


async def test_a_redirect_is_not_followed() -> None:
    with receiver() as other, receiver() as hook:
        hook.statuses, hook.location = [307], other.url
        with pytest.raises(Refused, match="307, but redirects are not followed"):
            await Webhooks({}).post(webhook(url=hook.url), "text")
        assert other.paths == []


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    with receiver(context) as hook:
        url = f"https://localhost:{hook.port}/s3cret"
        with pytest.raises(Unreachable, match=r"^its certificate was not accepted: self-signed") as refused:
            await Webhooks({}).post(webhook(url=url), "text")
        assert "s3cret" not in str(refused.value)
        assert hook.paths == []


async def test_a_certificate_that_is_vouched_for_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path, addresses=())
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with receiver(context) as hook:
        await Webhooks({}).post(webhook(url=f"https://localhost:{hook.port}/x"), "text")
        assert hook.texts == ["text"]
        with pytest.raises(Unreachable, match="certificate was not accepted"):
            await Webhooks({}).post(webhook(url=f"https://127.0.0.1:{hook.port}/x"), "of another name")


async def test_nobody_there_and_one_who_never_answers_are_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as hook:
        gone = hook.url
        hook.speaks.clear()
        monkeypatch.setattr(webhooks, "POST_SECONDS_MAX", 0.3)
        with pytest.raises(Unreachable, match=r"^no answer within"):
            await Webhooks({}).post(webhook(url=hook.url), "text")
    with pytest.raises(ReconcilerError, match=r"^cannot connect: ") as refused:
        await Webhooks({}).post(webhook(url=gone), "text")
    assert "s3cret" not in str(refused.value)
