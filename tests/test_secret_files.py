"""Tokens, passwords and keys in files that people make by hand: what is meant is taken, what cannot be is named."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import asyncssh
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.errors import Invalid
from reconciler.secret_files import find_secret, one_line, read_private_key, read_secret

AROUND = [
    "",
    "\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    "\n\n",
    " \r\n \n",
    "\u00a0",
    "\u200b",
    "\ufeff",
    "\0",
    "\x0c",
    "\u2028",
]
secrets = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\"'"), min_size=1, max_size=80
)
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "as it was made": lambda key: key,
    "CRLF": lambda key: key.replace(b"\n", b"\r\n"),
    "CR": lambda key: key.replace(b"\n", b"\r"),
    "a byte order mark": lambda key: b"\xef\xbb\xbf" + key,
    "UTF-16": lambda key: key.decode().encode("utf-16"),
    "no last line's end": lambda key: key.rstrip(),
    "a blank line before": lambda key: b"\n \n" + key,
    "blank lines between": lambda key: key.replace(b"\n", b"\n\n"),
    "indented, as in YAML": lambda key: b"".join(b"    " + line + b"\n" for line in key.splitlines()),
    "blanks at the ends": lambda key: key.replace(b"\n", b" \t\n"),
    "one line, as a variable": lambda key: key.replace(b"\n", b" "),
    "backslash n, as in JSON": lambda key: key.replace(b"\n", b"\\n"),
    "in quotes": lambda key: b'"' + key + b'"',
    "text before and after": lambda key: b"key of ada:\n" + key + b"-- \nada\n",
}
"""What editors, shells, web pages and secret stores make of a key."""


@given(
    secret=secrets,
    before=st.sampled_from(AROUND),
    after=st.sampled_from(AROUND),
    mark=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_secret_is_what_was_meant_whatever_stands_around_it(
    tmp_path: Path, secret: str, before: str, after: str, mark: str
) -> None:
    file = tmp_path / "token"
    file.write_bytes(f"{before}{secret}{after}".encode(mark))
    assert read_secret(file) == secret


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds nothing; expected one line"),
        (" \r\n\ufeff\n", "holds nothing; expected one line"),
        ("one\ntwo", "holds 2 lines; expected one line"),
        ("'token'", "holds a secret in quotes; remove them"),
        ('"token"', "holds a secret in quotes; remove them"),
        ("tok\u200ben", "has ZERO WIDTH SPACE in column 4"),
        ("tok\u2013en", "has EN DASH in column 4"),
        ("t\x07", r"has control character U\+0007 in column 2"),
        ("x" * 5000, "has 5000 characters, the most is 4096"),
    ],
)
def test_what_cannot_be_meant_is_named_without_the_secret(text: str, said: str) -> None:
    with pytest.raises(Invalid, match=f"^/run/token {said}") as caught:
        one_line(text, "/run/token")
    assert "token" not in str(caught.value).replace("/run/token", "")


def test_a_place_without_a_secret_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    for name, said in {
        "none": "cannot be read: No such file",
        "": "is no file",
        "latin": "not text",
        "large": "larger than 64 KiB",
    }.items():
        with pytest.raises(Invalid, match=said):
            find_secret(tmp_path / name, None, {})
    with pytest.raises(Invalid, match="the environment of `reconciler up` has no TOKEN; set it, and restart"):
        find_secret(None, "TOKEN", {"TOKEN": " \r\n"})
    assert find_secret(None, "TOKEN", {"TOKEN": "secret\r"}) == "secret"


@pytest.fixture(scope="module")
def keys() -> list[bytes]:
    """One private key of each kind and each format that ssh-keygen writes."""
    return [
        asyncssh.generate_private_key(kind).export_private_key(form)
        for kind in ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")
        for form in ("openssh", "pkcs8-pem", "pkcs1-pem")
        if (kind, form) != ("ssh-ed25519", "pkcs1-pem")
    ]


@pytest.mark.second_tier
@pytest.mark.parametrize("form", FORMS)
def test_a_private_key_is_the_same_after_what_tools_do_to_it(
    tmp_path: Path, keys: list[bytes], form: str
) -> None:
    file = tmp_path / "key"
    for key in keys:
        file.write_bytes(FORMS[form](key))
        found = asyncssh.import_private_key(read_private_key(file))
        assert found.export_public_key() == asyncssh.import_private_key(key).export_public_key()


@pytest.mark.needs("ssh-keygen")
def test_a_mended_key_is_one_that_openssh_takes(tmp_path: Path, keys: list[bytes]) -> None:
    for key in (each for each in keys if b"OPENSSH" in each):
        mended = tmp_path / "mended"
        mended.touch(0o600)
        (tmp_path / "key").write_bytes(FORMS["CR"](FORMS["indented, as in YAML"](key)))
        mended.write_text(read_private_key(tmp_path / "key"))
        shown = subprocess.run(
            ["ssh-keygen", "-yf", str(mended)], capture_output=True, check=True, timeout=60
        ).stdout
        assert shown.split()[:2] == asyncssh.import_private_key(key).export_public_key().split()[:2]


def test_a_key_with_a_passphrase_keeps_its_headers(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(
        asyncssh.generate_private_key("ssh-rsa").export_private_key("pkcs1-pem", "word", "aes256-cbc")
    )
    assert asyncssh.import_private_key(read_private_key(tmp_path / "key"), "word")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; expected a private key"),
        ("ssh-ed25519 AAAAC3 ada", "is a public key; name the private one"),
        ("ecdsa-sha2-nistp256 AAAA ada", "is a public key; name the private one"),
        ("PuTTY-User-Key-File-3: ssh-ed25519", "is a key of PuTTY; convert it: puttygen"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n", "is no private key: it lacks a line -----BEGIN"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nb3#l\n-----END RSA PRIVATE KEY-----",
            "is damaged: a private key has letters",
        ),
        ("hello", "is no private key: it lacks a line -----BEGIN"),
    ],
)
def test_a_file_that_is_no_private_key_is_told_what_it_is(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(Invalid, match=said):
        read_private_key(tmp_path / "key")
