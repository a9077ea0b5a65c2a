"""The author of commits, as git determines it."""

from __future__ import annotations

import getpass
import re
import socket
from pathlib import Path

from .process import TIMEOUT_SECONDS, git_process
from .repository import Author


def author_of(folder: Path) -> Author:
    """Return the author that git would use for a commit in ``folder``, from the user's configuration.

    Without a configured author, it is the account's name at this host.
    """
    process = git_process(("-C", str(folder), "var", "GIT_AUTHOR_IDENT"), b"", None, TIMEOUT_SECONDS)
    match = re.match(r"(.+) <([^<>]*)> \d+ [-+]\d{4}$", process.stdout.decode("utf-8", "replace").strip())
    if process.returncode == 0 and match:
        return Author(match[1], match[2])
    user = getpass.getuser()
    return Author(user, f"{user}@{socket.gethostname()}")
