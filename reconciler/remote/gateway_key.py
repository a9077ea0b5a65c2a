"""The gateway's own key, and the line of ``authorized_keys`` that lets it reach ranks and nothing else.

``restrict`` denies the key every forwarding, terminals, the agent and ``~/.ssh/rc``. ``command`` makes sshd run the
relay for any request: a shell, a command or a subsystem (sshd(8), AUTHORIZED_KEYS FILE FORMAT).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

COMMENT = "reconciler-gateway"


def public_key(path: Path) -> str:
    """Return the public half of the private key at ``path``, as ``ssh-ed25519 AAAA…``, and create the key if it is
    missing.

    Two processes may call this at the same time: both get the key that was created first. Raises ``OSError``.
    """
    import asyncssh  # takes a quarter of a second, which a cluster on one machine can save

    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = asyncssh.generate_private_key("ssh-ed25519", comment=COMMENT).export_private_key()
        with tempfile.NamedTemporaryFile(dir=path.parent) as draft:  # created with mode 0600
            draft.write(private)
            draft.flush()
            os.fsync(draft.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft.name, path)
    words = asyncssh.read_private_key(path).export_public_key().decode("ascii").split()
    return " ".join(words[:2])


def relay_line(python: str, agent: str, run_directory: str, key: str) -> str:
    """Return the line for a machine with the agent's file ``agent`` and the ranks' sockets in ``run_directory``.

    All three paths are absolute. Raises ``ValueError`` for a path that such a line cannot contain.
    """
    return authorized_line((python, "-I", agent, "relay", "--run-directory", run_directory), key)


def authorized_line(command: Sequence[str], key: str) -> str:
    """Return a line that lets ``key`` run ``command`` and nothing else. Raises ``ValueError`` as above."""
    shell = shlex.join(command)
    if any(letter in shell for letter in "\n\r\0\\"):
        raise ValueError(f"a line of authorized_keys cannot contain {shell!r}")
    quoted = shell.replace('"', '\\"')
    return f'restrict,command="{quoted}" {key} {COMMENT}'


def ensure_line(existing: str, line: str) -> str:
    """Return the text of an ``authorized_keys`` file with ``line`` as the only one for its key; unchanged if it already
    is."""
    key = " ".join(line.split()[-3:-1])
    lines = existing.split("\n")
    if [each for each in lines if _is_for(each, key)] == [line]:
        return existing
    others = [each for each in lines if not _is_for(each, key)]
    if others[-1:] == [""]:
        others.pop()
    return "\n".join([*others, line, ""])


def without_key(existing: str, key: str) -> str:
    """Return the text without any line for ``key``."""
    return "\n".join(each for each in existing.split("\n") if not _is_for(each, key))


def _is_for(line: str, key: str) -> bool:
    """Return whether a line is for a key, whatever options and comment it has."""
    return not line.lstrip().startswith("#") and key.split()[1] in line.split()
