"""Connects git with a remote: without prompts, with pinned host keys, and with secrets that only their reader sees.

No URL, command line or log has a secret. git asks a program for it, which has it in a variable. The text of the
programs has no data.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from reconciler.errors import Invalid
from reconciler.resources.git_repository import (
    URL_CHARACTERS_MAX,
    GitRepositorySpec,
    SshSecret,
    TokenSecret,
    checked_url,
    scheme_of,
)
from reconciler.secret_files import find_secret, read_private_key

CONNECT_SECONDS = 10
STALLED_SECONDS = 20
"""The longest silence of a connection."""

TRACE = "headers"
"""File in which git writes the headers of answers: only they have the target of a redirect."""

_SERVICE = re.compile(r"/(info/refs|git-upload-pack)/?$")
_PAGE = r"(?:text/html|application/(?:xhtml|json))"

_ASK = """\
#!/bin/sh
case "$1" in
Username*) printf '%s\\n' "$RECONCILER_GIT_USER" ;;
*) printf '%s\\n' "$RECONCILER_GIT_TOKEN" ;;
esac
"""
_SSH = """\
#!/bin/sh
exec ssh -F "$RECONCILER_GIT_SSH_CONFIG" "$@"
"""


def settings_of(spec: GitRepositorySpec) -> tuple[str, ...]:
    own = {
        # The remote accepted commits of years ago, and nobody reads them. Names of objects and that none is missing are
        # checked all the same.
        "fetch.fsckObjects": "false",
        "fetch.recurseSubmodules": "false",
        "http.followRedirects": "false",  # a redirect could lead a token to another host
        "http.lowSpeedLimit": "100",
        "http.lowSpeedTime": str(STALLED_SECONDS),
        "gc.auto": "0",
        "maintenance.auto": "false",
    }
    if scheme_of(spec.url) == "file":
        own["safe.directory"] = "*"  # the user named it; git would refuse a folder of another user
    if spec.ca_file is not None:
        own["http.sslCAInfo"] = str(Path(spec.ca_file).expanduser())
    return tuple(word for name, value in own.items() for word in ("-c", f"{name}={value}"))


def environment_of(spec: GitRepositorySpec, folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of git for a remote, and write the programs for its secrets into ``folder``.

    ``environ``: of this process. Raises ``Invalid`` if a secret is not in its place.
    """
    scheme = scheme_of(spec.url)
    found = {"GIT_ALLOW_PROTOCOL": scheme}
    if scheme in ("http", "https"):  # without secrets: git writes "<redacted>" for them
        found |= {"GIT_TRACE_CURL": str(folder / TRACE), "GIT_TRACE_CURL_NO_DATA": "1"}
    if scheme == "ssh" and spec.secret_ref.ssh is not None:
        found |= _ssh(spec.secret_ref.ssh, folder)
    if spec.secret_ref.token is not None:
        found |= _token(spec.secret_ref.token, folder, environ)
    return found


def _ssh(secret: SshSecret, folder: Path) -> dict[str, str]:
    config = folder / "ssh_config"
    config.write_text(
        "Host *\n"
        "  BatchMode yes\n  IdentitiesOnly yes\n  IdentityAgent none\n  StrictHostKeyChecking yes\n"
        "  UpdateHostKeys no\n  ForwardAgent no\n  ClearAllForwardings yes\n  PermitLocalCommand no\n"
        f"  ConnectTimeout {CONNECT_SECONDS}\n  ServerAliveInterval 5\n  ServerAliveCountMax 3\n"
        f"  GlobalKnownHostsFile /dev/null\n"
        f"  IdentityFile {_quoted(_private_key(secret.key_file, folder))}\n"
        f"  UserKnownHostsFile {_quoted(_readable(secret.known_hosts_file))}\n",
        encoding="utf-8",
    )
    program = _program(folder / "ssh", _SSH)
    return {"GIT_SSH": program, "GIT_SSH_VARIANT": "ssh", "RECONCILER_GIT_SSH_CONFIG": str(config)}


def _token(secret: TokenSecret, folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    found = {"GIT_ASKPASS": _program(folder / "ask", _ASK), "RECONCILER_GIT_USER": secret.username}
    return {**found, "RECONCILER_GIT_TOKEN": find_secret(secret.file, secret.env, environ)}


def _private_key(written: str, folder: Path) -> Path:
    """Return the path of a key that ``ssh`` takes: the file itself, or a copy of it as ``ssh`` wants it."""
    path = _readable(written)
    key = read_private_key(path)
    if path.read_bytes() == key.encode() and not stat.S_IMODE(path.stat().st_mode) & 0o077:
        return path
    copy = folder / "key"
    copy.touch(0o600)
    copy.chmod(0o600)
    copy.write_text(key, encoding="utf-8")
    return copy


def diverted(spec: GitRepositorySpec, folder: Path) -> str:
    """Return why the last answer, a page or a redirect, cannot be used; empty if it was neither."""
    try:
        trace = (folder / TRACE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    answer = trace.rpartition("<= Recv header: HTTP/")[2]
    status = answer.partition(" ")[2][:3]
    if status == "200" and re.search(r"<= Recv header: content-type: *" + _PAGE, answer, re.IGNORECASE):
        return (
            "the server answers with a page, and not as git does: a page to log in, or a wrong URL or token"
        )
    if not status.startswith("3"):
        return ""
    location = re.search(r"<= Recv header: location: *([^\r\n]*)", answer, re.IGNORECASE)
    return (
        f"the server answers {status} and names {_place(spec.url, location[1].strip() if location else '')}"
    )


def _place(url: str, location: str) -> str:
    """Return the target of a redirect, without user and query, which may hold a secret, and the remedy."""
    try:
        parts = urlsplit(urljoin(f"{url}/info/refs", location))
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not location or not location.isprintable() or not host or parts.scheme not in ("https", "http"):
        return "no URL to follow"
    path, *service = _SERVICE.split(parts.path)
    host = f"[{host}]" if ":" in host else host
    place = f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}"
    if len(place) > URL_CHARACTERS_MAX:
        return "no URL to follow"
    if place == url:
        return f"{place}, which is the same URL: a loop"
    try:
        checked_url(place)
    except ValueError as error:
        return f"{place}, which cannot be followed: {error}"
    if not service:
        return f"{place}, which is no repository: a page to log in, or a wrong URL or token"
    return f"{place}; to follow that: reconciler source set {shlex.quote(place)}"


def _readable(written: str) -> Path:
    path = Path(written).expanduser()
    if not os.access(path, os.R_OK) or not path.is_file():
        raise Invalid(f"{path} cannot be read, or is no file; `reconciler source show` says what it is for")
    return path


def _quoted(path: Path) -> str:
    """Return a path as ssh_config(5) takes it: in quotes, and without its tokens."""
    text = str(path)
    if '"' in text or not text.isprintable():
        raise Invalid(f"{text!r} cannot be named to ssh; rename it")
    return '"' + text.replace("\\", "\\\\").replace("%", "%%") + '"'


def _program(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o700)
    return str(path)
