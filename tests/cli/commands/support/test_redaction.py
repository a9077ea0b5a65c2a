"""What is taken out of a bundle for whoever helps, and what stays readable."""

from __future__ import annotations

import pytest

from reconciler.cli.commands.support.redaction import REMOVED, redacted
from reconciler.wire.keys import hash_of, secret_of

SECRET = "Zk3vQ9xW7bT1mN5c"

SECRETS = [
    "Authorization: Bearer abc.def-ghi_123",
    'authorization": "Basic dXNlcjpwYXNzd29yZA=="',
    "curl -H 'x-api-key: abcd-1234'",
    f"HF_TOKEN=hf_{SECRET}{SECRET}",
    f'"hubToken": "{SECRET}"',
    f"password: {SECRET}",
    f"client_secret={SECRET}&x=1",
    f"https://ada:{SECRET}@git.example.com/cluster.git",
    f"https://hooks.slack.com/services/T01/B02/{SECRET}",
    f"https://chat.example.com/api/webhooks/12/{SECRET}",
    f"https://example.com/hook?key={SECRET}",
    f"ghp_{SECRET}{SECRET}",
    f"sk-ant-api03-{SECRET}-{SECRET}",
    "AKIAIOSFODNN7EXAMPLE",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{SECRET}",
    secret_of(b"x" * 32),
    hash_of("x"),
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg",
    f"annotation {SECRET}{SECRET}{SECRET}",
]

READABLE = [
    "revision 4ee61ee07efa6731c50594e647897c96ae3310eb is in force",
    "limits: {tokensPerDay: 200000, tokensPerMinute: 1000}",
    '"tokensToday": 1234567, "secret": null',
    "tokenRef: {env: HF_TOKEN}",
    "urlFrom: {file: /etc/reconciler/webhook}",
    "mlx-community/Meta-Llama-3.1-405B-Instruct-4bit is present on node-a",
    "rank tiny.0.3.1 on node-b (epoch 3, pid 4201) was killed by signal 9",
    "http://127.0.0.1:8400/v1",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMb0b",
]


@pytest.mark.parametrize("text", SECRETS)
def test_what_looks_like_a_secret_goes(text: str) -> None:
    shown = redacted(f"before {text} after\nnext line")
    assert REMOVED in shown
    assert SECRET not in shown
    assert all(
        word not in shown for word in ("dXNlcjpw", "abc.def", "abcd-1234", "b3BlbnNz", "MIIEv", "IOSFODNN7")
    )
    assert shown.startswith("before ")


@pytest.mark.parametrize("text", READABLE)
def test_what_helps_stays(text: str) -> None:
    assert redacted(text) == text
