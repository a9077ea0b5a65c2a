"""How git reaches a remote: without prompts, with pinned host keys, and with secrets that only their reader sees.

A secret is in no URL, no command line and no log. git asks a program for it, which reads it from its file or variable.
The programs have no data in their text: they get it in variables that hold names of files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import Invalid
from reconciler.resources.git_repository import GitRepositorySpec, SshSecret, TokenSecret, scheme_of

CONNECT_SECONDS = 10
STALLED_SECONDS = 20
"""How long a connection may bring nothing."""

_ASK = """\
#!/bin/sh
case "$1" in
Username*) printf '%s\\n' "$RECONCILER_GIT_USER" ;;
*) if [ -n "$RECONCILER_GIT_TOKEN_FILE" ]; then exec head -n 1 "$RECONCILER_GIT_TOKEN_FILE"
   else exec printenv "$RECONCILER_GIT_TOKEN_VARIABLE"; fi ;;
esac
"""
_SSH = """\
#!/bin/sh
exec ssh -F "$RECONCILER_GIT_SSH_CONFIG" "$@"
"""


def settings_of(spec: GitRepositorySpec) -> tuple[str, ...]:
    """Return the options of git for a remote."""
    own = {
        "fetch.fsckObjects": "true",
        "fetch.recurseSubmodules": "false",
        "http.followRedirects": "false",  # a redirect could lead a token to another host
        "http.lowSpeedLimit": "100",
        "http.lowSpeedTime": str(STALLED_SECONDS),
        "gc.auto": "0",
        "maintenance.auto": "false",
    }
    if spec.ca_file is not None:
        own["http.sslCAInfo"] = str(Path(spec.ca_file).expanduser())
    return tuple(word for name, value in own.items() for word in ("-c", f"{name}={value}"))


def environment_of(spec: GitRepositorySpec, folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of git for a remote, and write the programs for its secrets into ``folder``.

    ``environ``: of this process. Raises ``Invalid`` if a secret is not where it should be.
    """
    scheme = scheme_of(spec.url)
    found = {"GIT_ALLOW_PROTOCOL": scheme}
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
        f"  IdentityFile {_quoted(_readable(secret.key_file))}\n"
        f"  UserKnownHostsFile {_quoted(_readable(secret.known_hosts_file))}\n",
        encoding="utf-8",
    )
    program = _program(folder / "ssh", _SSH)
    return {"GIT_SSH": program, "GIT_SSH_VARIANT": "ssh", "RECONCILER_GIT_SSH_CONFIG": str(config)}


def _token(secret: TokenSecret, folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    found = {"GIT_ASKPASS": _program(folder / "ask", _ASK), "RECONCILER_GIT_USER": secret.username}
    if secret.file is not None:
        return {**found, "RECONCILER_GIT_TOKEN_FILE": str(_readable(secret.file))}
    name = secret.env or ""
    if not environ.get(name):
        raise Invalid(
            f"the environment of `reconciler up` has no {name}; set it, and restart `reconciler up`"
        )
    return {
        **found,
        name: environ[name],
        "RECONCILER_GIT_TOKEN_FILE": "",
        "RECONCILER_GIT_TOKEN_VARIABLE": name,
    }


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
    path.write_text(text)
    path.chmod(0o700)
    return str(path)
