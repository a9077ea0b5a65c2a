"""What forges sign, by the vectors that they publish, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.hooks.signature import sent_by_who_knows

SECRET = "It's a Secret to Everybody"
BODY = b"Hello, World!"
GITHUB = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
"""Of docs.github.com, "Validating webhook deliveries": testing the validation."""
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_614_265_330.0
STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
"""Of the Standard Webhooks' own tests."""
STANDARD_BODY = b'{"test": 2432232314}'


def signed(body: bytes = BODY, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    "headers",
    [
        {"x-hub-signature-256": f"sha256={GITHUB}"},
        {"x-forgejo-signature": GITHUB, "x-gitea-signature": GITHUB},
        {"x-gitea-signature": GITHUB},
        {"x-gitlab-token": SECRET},
        {"x-signature": f"sha256={GITHUB}"},
    ],
)
def test_what_a_forge_signs_is_taken(headers: dict[str, str]) -> None:
    assert signed() == GITHUB
    assert sent_by_who_knows(SECRET, headers, BODY, NOW)
    if "x-gitlab-token" not in headers:
        assert not sent_by_who_knows(SECRET, headers, BODY + b" ", NOW)
    assert not sent_by_who_knows(SECRET + "x", headers, BODY, NOW)


def test_the_standard_that_gitlab_follows() -> None:
    assert sent_by_who_knows(KEY, STANDARD, STANDARD_BODY, NOW)
    for seconds in (300, 301):
        for now in (NOW - seconds, NOW + seconds):
            assert sent_by_who_knows(KEY, STANDARD, STANDARD_BODY, now) is (seconds == 300)
    assert not sent_by_who_knows(KEY, {**STANDARD, "webhook-id": "other"}, STANDARD_BODY, NOW)
    assert not sent_by_who_knows(KEY, {**STANDARD, "webhook-timestamp": "soon"}, STANDARD_BODY, NOW)
    several = {
        **STANDARD,
        "webhook-signature": f"v1,{base64.b64encode(b'x' * 32).decode()} {STANDARD['webhook-signature']}",
    }
    assert sent_by_who_knows(KEY, several, STANDARD_BODY, NOW)
    assert not sent_by_who_knows("not base64!", STANDARD, STANDARD_BODY, NOW)


def test_a_bad_signature_is_not_rescued_by_another_header() -> None:
    headers = {"x-hub-signature-256": "sha256=" + "0" * 64, "x-gitea-signature": GITHUB}
    assert not sent_by_who_knows(SECRET, headers, BODY, NOW)


def test_nothing_is_taken_without_a_signature() -> None:
    assert not sent_by_who_knows(SECRET, {}, BODY, NOW)
    assert not sent_by_who_knows(SECRET, {"x-github-event": "push"}, BODY, NOW)


@given(
    st.sampled_from(
        [
            "x-hub-signature-256",
            "x-forgejo-signature",
            "x-gitea-signature",
            "webhook-signature",
            "x-gitlab-token",
            "x-signature",
        ]
    ),
    st.text(max_size=100),
    st.text(max_size=20),
)
def test_no_other_value_is_taken(name: str, value: str, moment: str) -> None:
    headers = {name: value, "webhook-timestamp": moment}
    assert not sent_by_who_knows("another secret altogether", headers, BODY, NOW)
