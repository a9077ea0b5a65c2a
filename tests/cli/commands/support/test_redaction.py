"""What is taken out of a bundle for whoever helps, and what stays readable."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

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
    f"hash: {hash_of('x')}",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg",
    f"annotation {SECRET}{SECRET}{SECRET}",
    rf'{{"body": "{{\\"token\\": \\"{SECRET}\\", \\"a\\": 1}}"}}',
    rf'"line": "{{\\\\\\"password\\\\\\": \\\\\\"{SECRET}\\\\\\"}}"',
    f"{{'api_key': '{SECRET}', 'a': 1}}",
    f"mlx --token {SECRET} --port 1",
    f"--hub-token={SECRET}",
    f'["login", "--password", "{SECRET}"]',
    f"https://{SECRET}@git.example.com/cluster.git",
    f"http://x-access-token:{SECRET}@github.com/a",
    f"ssh://ada:{SECRET}@host/x",
    f"access_key: {SECRET}",
    f"secret_access_key = {SECRET}",
    f"AccountKey={SECRET};EndpointSuffix=x",
    "password: 73914826",
    "pwd=73914826",
    '"token": 7391482655',
    "passphrase: correct horse battery",
    "the password is correct-horse-1",
    'secret: "correct horse battery"',
    f"machine git.example.com login ada password {SECRET}",
    f"machine git.example.com\n  login ada\n  password {SECRET}",
    f"token: |\n  {SECRET}\n",
    f"<password>{SECRET}</password>",
    f"<key>HubToken</key>\n<string>{SECRET}</string>",
    f"curl -u ada:{SECRET} https://x",
    f"sshpass -p {SECRET} ssh x",
    f"X-Auth-Token: {SECRET}",
    f"x-goog-api-key: {SECRET}",
    f"//registry.npmjs.org/:_authToken={SECRET}",
    f'"auth": "{SECRET}{SECRET}{SECRET}="',
    f"client-key-data: {SECRET}",
    "$2y$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy",
    "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2g",
    "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1",
    "AGE-SECRET-KEY-1QQPQQQQQQQQQQQQQQQQQQQQ",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nMIIEv\n-----END PGP PRIVATE KEY BLOCK-----",
    r"-----BEGIN RSA PRIVATE KEY-----\nMIIEv\n-----END RSA PRIVATE KEY-----",
    f"wss://example.com/?sig={SECRET}",
    f"Cookie: session={SECRET}; theme=dark",
    f"session_id={SECRET}",
    f"proxy-authorization: Digest {SECRET}",
    f"otpauth://totp/x?secret={SECRET}",
    f"SSHPASS={SECRET}",
    f"Kennwort: {SECRET}",
    f"token -> {SECRET}",
    f"password is: {SECRET}",
    f"body=token%3D{SECRET}",
    f"--password-stdin={SECRET}",
    f"--auth {SECRET}",
    f"--bearer={SECRET}",
    f"dckr_pat_{SECRET}{SECRET}",
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
    "token:\n  file: /etc/reconciler/token",
    "secretRef: {token: {file: /etc/reconciler/token}}",
    "secretRef:\n  ssh:\n    keyFile: ~/.ssh/id_ed25519",
    "passwordFile: /etc/reconciler/redis",
    "the password is not set",
    "ssh://ada@studio-1.local:22/x",
    '"prompt_tokens": 812, "max_tokens": 4096, "tokens": [1, 2]',
    '"key": "tiny/0", "keys": ["agent"]',
    "a token was expected at line 3",
    "reconciler key create agent --console operate",
    "password authentication is off",
    "node-a:10443:x y",
]


@pytest.mark.parametrize("text", SECRETS)
def test_what_looks_like_a_secret_goes(text: str) -> None:
    shown = redacted(f"before {text} after\nnext line")
    assert REMOVED in shown
    assert not any(
        word in shown
        for word in (SECRET, "73914826", "horse", "hubs", "PouQMn", "c2Fsd", "N9qo8", "QQQQ", "AAHdq")
    )
    assert all(
        word not in shown for word in ("dXNlcjpw", "abc.def", "abcd-1234", "b3BlbnNz", "MIIEv", "IOSFODNN7")
    )
    assert shown.startswith("before ")
    assert shown.endswith("next line") or "BEGIN PRIVATE" in text, "a key that is cut may go on"


@pytest.mark.parametrize("text", READABLE)
def test_what_helps_stays(text: str) -> None:
    assert redacted(text) == text


def test_a_known_secret_goes_in_whatever_form_it_is() -> None:
    secret = 'two "words" & ümlaut'
    forms = [
        secret,
        json.dumps(secret),
        json.dumps(json.dumps(secret)),
        quote(secret, safe=""),
        base64.b64encode(secret.encode()).decode(),
        json.dumps({"a": json.dumps({"b": secret})}),
    ]
    for form in forms:
        shown = redacted(f"a {form} b", [secret])
        assert REMOVED in shown
        assert "words" not in shown
        assert base64.b64encode(secret.encode()).decode() not in shown
    assert redacted("a cat sat", ["cat"]) == "a cat sat", "a short one may be anything"


def test_what_was_redacted_stays_as_it_is() -> None:
    for text in SECRETS:
        once = redacted(text)
        assert redacted(once) == once
